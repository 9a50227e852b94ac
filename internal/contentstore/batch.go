package contentstore

import (
	"context"
	"errors"
	"os"
	"strings"
)

// plannedFile is an operation whose path has been checked.
type plannedFile struct {
	at      location
	content []byte
	upsert  bool
}

// BatchWrite implements [Store]. The root is locked meanwhile; a second batch on
// it, on a tree around it or on one inside it is KindConflict. A cancelled ctx
// stops it between two files.
func (l *Local) BatchWrite(ctx context.Context, who Principal, batch Batch) (BatchResult, error) {
	root, err := writeLocation(ctx, who, batch.Root)
	if err != nil {
		return BatchResult{}, err
	}
	files, err := planBatch(root, batch.Operations)
	if err != nil {
		return BatchResult{}, err
	}
	release, ok := l.locks.acquire(strings.Join(root.segments, "/"))
	if !ok {
		return BatchResult{}, refuse(KindConflict, root.uri.String(), "is being written by another task")
	}
	defer release()
	if err := l.checkAgainstDisk(root, files); err != nil {
		return BatchResult{}, err
	}
	return l.writeAll(ctx, root, files)
}

// planBatch checks all that can be told without looking at the disk.
func planBatch(root location, operations []Operation) ([]plannedFile, error) {
	if len(operations) > MaxBatchOperations {
		return nil, refuse(KindExhausted, root.uri.String(), "batch has more than %d operations", MaxBatchOperations)
	}
	files := make([]plannedFile, 0, len(operations))
	seen := make(map[string]bool, len(operations))
	total := 0
	for _, op := range operations {
		at, err := root.child(op.Path)
		if err != nil {
			return nil, err
		}
		if len(op.Content) > MaxBatchFileBytes {
			return nil, refuse(KindExhausted, op.Path, "is larger than %d bytes", MaxBatchFileBytes)
		}
		if total += len(op.Content); total > MaxBatchBytes {
			return nil, refuse(KindExhausted, root.uri.String(), "batch is larger than %d bytes", MaxBatchBytes)
		}
		if err := claim(seen, root, at, op.Path); err != nil {
			return nil, err
		}
		files = append(files, plannedFile{at: at, content: op.Content, upsert: op.Upsert})
	}
	return files, nil
}

// claim records a file and the directories above it in seen (true: a file), and
// refuses a path that an earlier one makes impossible or ambiguous.
func claim(seen map[string]bool, root, at location, path string) error {
	folded := FoldPath(strings.Join(at.segments, "/"))
	if _, taken := seen[folded]; taken {
		return refuse(KindConflict, path, "appears twice in the batch, ignoring case")
	}
	seen[folded] = true
	for i := len(at.segments) - 1; i > len(root.segments); i-- {
		parent := FoldPath(strings.Join(at.segments[:i], "/"))
		if seen[parent] {
			return refuse(KindConflict, path, "lies below another file of the batch")
		}
		seen[parent] = false
	}
	return nil
}

// checkAgainstDisk refuses files that what stands on the disk is in the way of.
func (l *Local) checkAgainstDisk(root location, files []plannedFile) error {
	names := newSnapshot(l)
	if err := names.checkDir(root); err != nil {
		return diskError("check", root.uri.String(), err)
	}
	for _, file := range files {
		exists, err := names.checkFile(file.at)
		if err != nil {
			return diskError("check", file.at.uri.String(), err)
		}
		if exists && !file.upsert {
			return refuse(KindConflict, file.at.uri.String(), "already exists")
		}
	}
	return nil
}

// writeAll carries a checked batch out. Directories are made durable once, after
// their last file.
func (l *Local) writeAll(ctx context.Context, root location, files []plannedFile) (BatchResult, error) {
	w := batchWriter{local: l}
	rootDir, err := l.ensureDir(root.segments)
	if err != nil {
		return BatchResult{}, diskError("create directory", root.uri.String(), err)
	}
	closeQuietly(rootDir)
	for _, file := range files {
		if err = ctx.Err(); err != nil {
			break
		}
		if err = w.write(file); err != nil {
			err = diskError("write", file.at.uri.String(), err)
			break
		}
	}
	return w.result, errors.Join(err, diskError("write", root.uri.String(), w.finish()))
}

// batchWriter keeps the directory of the last file open, for files of one
// directory tend to follow each other.
type batchWriter struct {
	local  *Local
	dir    *os.Root
	key    string
	dirty  bool
	result BatchResult
}

func (w *batchWriter) write(file plannedFile) error {
	if err := w.enter(file.at.parent()); err != nil {
		return err
	}
	done, err := w.local.put(w.dir, file.at.base(), file.content)
	if err != nil {
		return err
	}
	switch done {
	case outcomeCreated:
		w.result.Created = append(w.result.Created, file.at.uri.String())
	case outcomeUpdated:
		w.result.Updated = append(w.result.Updated, file.at.uri.String())
	default:
		w.result.Unchanged = append(w.result.Unchanged, file.at.uri.String())
		return nil
	}
	w.dirty = true
	return nil
}

func (w *batchWriter) enter(segments []string) error {
	key := strings.Join(segments, "/")
	if w.dir != nil && w.key == key {
		return nil
	}
	if err := w.finish(); err != nil {
		return err
	}
	dir, err := w.local.ensureDir(segments)
	if err != nil {
		return err
	}
	w.dir, w.key = dir, key
	return w.local.sweep(dir)
}

// finish makes the renames in the open directory durable and closes it.
func (w *batchWriter) finish() error {
	if w.dir == nil {
		return nil
	}
	var err error
	if w.dirty {
		err = w.local.disk.syncDir(w.dir)
	}
	closeQuietly(w.dir)
	w.dir, w.dirty = nil, false
	return err
}

package compile

import (
	"bytes"
	"context"
	"unicode/utf8"

	"github.com/agentruntime/operator/internal/contentstore"
	"github.com/agentruntime/operator/internal/runtime/compile/okf"
	"github.com/agentruntime/operator/internal/runtimeapi"
	"github.com/agentruntime/operator/internal/viking"
)

// render is the stage rendering: it checks the output by F.10 and finds what would
// change.
func (r *run) render(ctx context.Context) error {
	target := make(map[string]TargetFile, len(r.ws.Target))
	folded := make(map[string]string, len(r.ws.Target))
	for _, file := range r.ws.Target {
		target[file.Path] = file
		folded[contentstore.FoldPath(file.Path)] = file.Path
	}
	pages := 0
	for _, file := range r.ws.Target {
		if file.Page != nil {
			pages++
		}
	}
	var total int64
	seen := make(map[string]bool, len(r.bundle.Files))
	for _, file := range r.bundle.Files {
		if total += int64(len(file.Content)); total > r.engine.limits.OutputBytes {
			return refuse(runtimeapi.CodeResourceExhausted, "output is larger than %d bytes", r.engine.limits.OutputBytes)
		}
		page, err := r.checkFile(file, seen, folded)
		if err != nil {
			return err
		}
		old, exists := target[file.Path]
		switch {
		case page != nil && old.Page == nil:
			pages++
		case page == nil && old.Page != nil:
			return refuse(runtimeapi.CodeAgentOutputInvalid, "output %s would no longer be a page", file.Path)
		}
		if err := r.compare(ctx, file, old, exists); err != nil {
			return readError(err)
		}
	}
	if n := len(folded); n > r.engine.limits.TargetFiles {
		return refuse(runtimeapi.CodeResourceExhausted, "target would hold %d files, more than %d", n, r.engine.limits.TargetFiles)
	}
	if r.ws.TargetType == viking.TypeResource {
		r.result.PageCount = pages
	}
	return nil
}

// checkFile refuses an output file that F.10 does not allow. seen are the paths of
// the output, folded those of the output and the target, both kept up to date.
func (r *run) checkFile(file OutputFile, seen map[string]bool, folded map[string]string) (*okf.Page, error) {
	if err := viking.CheckRelativePath(file.Path); err != nil {
		return nil, refuse(runtimeapi.CodeAgentOutputInvalid, "output %s", err)
	}
	if len(file.Content) > contentstore.MaxBatchFileBytes {
		return nil, refuse(runtimeapi.CodeResourceExhausted, "output %s is larger than %d bytes", file.Path, contentstore.MaxBatchFileBytes)
	}
	key := contentstore.FoldPath(file.Path)
	if seen[key] {
		return nil, refuse(runtimeapi.CodeAgentOutputInvalid, "output holds %s twice, ignoring case", file.Path)
	}
	seen[key] = true
	if other, exists := folded[key]; exists && other != file.Path {
		return nil, refuse(runtimeapi.CodeConflict, "output %s differs only by case from the target's %s", file.Path, other)
	}
	folded[key] = file.Path
	if !isMarkdown(file.Path) {
		return nil, nil
	}
	page, err := okf.Parse(file.Content)
	if err == nil && page != nil && !utf8.Valid(file.Content) {
		return nil, refuse(runtimeapi.CodeAgentOutputInvalid, "output %s is not UTF-8", file.Path)
	}
	if err != nil {
		return nil, refuse(runtimeapi.CodeAgentOutputInvalid, "output %s: %s", file.Path, err)
	}
	return page, nil
}

// compare sorts a file into changed and unchanged.
func (r *run) compare(ctx context.Context, file OutputFile, old TargetFile, exists bool) error {
	if exists && old.Size == int64(len(file.Content)) {
		current, whole, err := old.Head(ctx, old.Size)
		if err != nil {
			return err
		}
		if whole && bytes.Equal(current, file.Content) {
			r.result.Unchanged = append(r.result.Unchanged, old.URI)
			return nil
		}
	}
	r.changed = append(r.changed, file)
	return nil
}

// write is the stage writing: as few batches as the limits of one allow (F.11).
func (r *run) write(ctx context.Context) error {
	for rest := r.changed; len(rest) > 0; {
		if err := ctx.Err(); err != nil {
			return err
		}
		n := batchSize(rest)
		batch := contentstore.Batch{Root: r.uris.to}
		for _, file := range rest[:n] {
			operation := contentstore.Operation{Path: file.Path, Content: file.Content, Upsert: true}
			batch.Operations = append(batch.Operations, operation)
		}
		done, err := r.engine.store.BatchWrite(ctx, r.uris.who, batch)
		r.result.Created = append(r.result.Created, done.Created...)
		r.result.Updated = append(r.result.Updated, done.Updated...)
		r.result.Unchanged = append(r.result.Unchanged, done.Unchanged...)
		if err != nil {
			return writeError(err)
		}
		rest = rest[n:]
	}
	return nil
}

// batchSize returns how many of files, at least one, fit into one batch.
func batchSize(files []OutputFile) int {
	total := 0
	for i, file := range files {
		total += len(file.Content)
		if i == contentstore.MaxBatchOperations || i > 0 && total > contentstore.MaxBatchBytes {
			return i
		}
	}
	return len(files)
}

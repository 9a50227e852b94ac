package contentstore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/agentruntime/operator/internal/viking"
)

const (
	dirMode  fs.FileMode = 0o700
	fileMode fs.FileMode = 0o600
)

// Local is a [Store] in a directory of the local disk, laid out as
// <dir>/<account>/{resources,user/<uid>,agent}/…. One process at a time may
// write to a directory: its locks are its own.
//
// No path leads out of an account's directory. Every step of a path is opened by
// its parent's handle and compared with what stood there, so symbolic links and
// special files are refused and not followed, even when they appear meanwhile.
type Local struct {
	root  *os.Root
	disk  disk
	now   func() time.Time
	locks lockTable
}

var _ Store = (*Local)(nil)

// OpenLocal opens the store in dir, which is created when missing. It refuses a
// directory on a file system that ignores case: there, two users whose names
// differ only by case would share a tree.
func OpenLocal(dir string) (*Local, error) {
	if err := os.MkdirAll(dir, dirMode); err != nil {
		return nil, fmt.Errorf("create content directory: %w", err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("open content directory: %w", err)
	}
	if err := probeCase(root); err != nil {
		return nil, errors.Join(err, root.Close())
	}
	return &Local{root: root, disk: realDisk(), now: time.Now}, nil
}

// Close releases the store's handle. Running calls may fail.
func (l *Local) Close() error { return l.root.Close() }

func probeCase(root *os.Root) error {
	name := tempPrefix + "case-" + randomName()
	f, err := root.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, fileMode)
	if err != nil {
		return fmt.Errorf("probe content directory: %w", err)
	}
	_, statErr := root.Lstat(strings.ToUpper(name))
	if err := errors.Join(f.Close(), root.Remove(name)); err != nil {
		return fmt.Errorf("probe content directory: %w", err)
	}
	if statErr == nil {
		return errors.New("content directory is on a file system that ignores case")
	}
	return nil
}

// Stat implements [Store].
func (l *Local) Stat(ctx context.Context, who Principal, uri viking.URI) (Info, error) {
	at, err := readLocation(ctx, who, uri)
	if err != nil {
		return Info{}, err
	}
	parent, err := l.openDir(at.parent())
	if err != nil {
		return Info{}, diskError("stat", at.uri.String(), err)
	}
	defer closeQuietly(parent)
	info, err := parent.Lstat(at.base())
	if err != nil {
		return Info{}, diskError("stat", at.uri.String(), err)
	}
	return describe(at.uri.String(), "", info)
}

func describe(uri, path string, info fs.FileInfo) (Info, error) {
	switch {
	case info.IsDir():
		return Info{URI: uri, Path: path, Dir: true}, nil
	case info.Mode().IsRegular():
		return Info{URI: uri, Path: path, Size: info.Size()}, nil
	default:
		return Info{}, refuse(KindInvalid, uri, "is a symbolic link or a special file")
	}
}

// Open implements [Store].
func (l *Local) Open(ctx context.Context, who Principal, uri viking.URI) (io.ReadCloser, error) {
	f, err := l.openFile(ctx, who, uri)
	if err != nil {
		return nil, err
	}
	return f, nil
}

func (l *Local) openFile(ctx context.Context, who Principal, uri viking.URI) (*os.File, error) {
	at, err := readLocation(ctx, who, uri)
	if err != nil {
		return nil, err
	}
	parent, err := l.openDir(at.parent())
	if err != nil {
		return nil, diskError("open", at.uri.String(), err)
	}
	defer closeQuietly(parent)
	f, err := openRegular(parent, at.base())
	if err != nil {
		return nil, diskError("open", at.uri.String(), err)
	}
	return f, nil
}

// Read implements [Store].
func (l *Local) Read(ctx context.Context, who Principal, uri viking.URI, limit int64) ([]byte, error) {
	f, err := l.openFile(ctx, who, uri)
	if err != nil {
		return nil, err
	}
	defer closeQuietly(f)
	content, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err != nil {
		return nil, diskError("read", uri.String(), err)
	}
	if int64(len(content)) > limit {
		return nil, refuse(KindExhausted, uri.String(), "is larger than %d bytes", limit)
	}
	return content, nil
}

// MakeDir implements [Store].
func (l *Local) MakeDir(ctx context.Context, who Principal, uri viking.URI) error {
	at, err := writeLocation(ctx, who, uri)
	if err != nil {
		return err
	}
	names := newSnapshot(l)
	if err := names.checkDir(at); err != nil {
		return diskError("create directory", at.uri.String(), err)
	}
	dir, err := l.ensureDir(at.segments)
	if err != nil {
		return diskError("create directory", at.uri.String(), err)
	}
	return diskError("create directory", at.uri.String(), dir.Close())
}

// openDir opens the directory that segments name, step by step.
func (l *Local) openDir(segments []string) (*os.Root, error) {
	dir, err := l.root.OpenRoot(".")
	if err != nil {
		return nil, err
	}
	for _, name := range segments {
		next, err := enter(dir, name)
		closeQuietly(dir)
		if err != nil {
			return nil, err
		}
		dir = next
	}
	return dir, nil
}

// ensureDir opens the directory that segments name and creates what is missing.
func (l *Local) ensureDir(segments []string) (*os.Root, error) {
	dir, err := l.root.OpenRoot(".")
	if err != nil {
		return nil, err
	}
	for _, name := range segments {
		next, err := enter(dir, name)
		if errors.Is(err, fs.ErrNotExist) {
			next, err = l.create(dir, name)
		}
		closeQuietly(dir)
		if err != nil {
			return nil, err
		}
		dir = next
	}
	return dir, nil
}

func (l *Local) create(dir *os.Root, name string) (*os.Root, error) {
	if err := l.disk.mkdir(dir, name); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	if err := l.disk.syncDir(dir); err != nil {
		return nil, err
	}
	return enter(dir, name)
}

// enter opens the directory called name in dir. os.Root would follow a link that
// stays inside the root, so what was opened is compared with what was looked at.
func enter(dir *os.Root, name string) (*os.Root, error) {
	before, err := dir.Lstat(name)
	if err != nil {
		return nil, err
	}
	if before.Mode().IsRegular() {
		return nil, refuse(KindNotFound, "", "a file stands where a directory is named")
	}
	if !before.IsDir() {
		return nil, refuse(KindInvalid, "", "the path leads through a symbolic link or a special file")
	}
	next, err := dir.OpenRoot(name)
	if err != nil {
		return nil, err
	}
	after, err := next.Stat(".")
	if err == nil && !os.SameFile(before, after) {
		err = refuse(KindConflict, "", "the path changed while it was opened")
	}
	if err != nil {
		closeQuietly(next)
		return nil, err
	}
	return next, nil
}

// openRegular opens the regular file called name in dir. O_NONBLOCK keeps a pipe
// that took the file's place from blocking the open.
func openRegular(dir *os.Root, name string) (*os.File, error) {
	before, err := dir.Lstat(name)
	if err != nil {
		return nil, err
	}
	if before.IsDir() {
		return nil, refuse(KindInvalid, "", "is a directory")
	}
	if !before.Mode().IsRegular() {
		return nil, refuse(KindInvalid, "", "is a symbolic link or a special file")
	}
	f, err := dir.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	after, err := f.Stat()
	if err == nil && !os.SameFile(before, after) {
		err = refuse(KindConflict, "", "the path changed while it was opened")
	}
	if err != nil {
		closeQuietly(f)
		return nil, err
	}
	return f, nil
}

// closeQuietly closes a handle that was only read through: its close has nothing
// to report that a caller could act on.
func closeQuietly(c io.Closer) { _ = c.Close() }

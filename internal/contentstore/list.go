package contentstore

import (
	"cmp"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"slices"

	"github.com/agentruntime/operator/internal/viking"
)

// readChunk is how many directory entries are read at once.
const readChunk = 1024

// List implements [Store]. Hidden names are left out silently; symbolic links,
// special files and names that no URI has are left out and counted.
func (l *Local) List(ctx context.Context, who Principal, uri viking.URI, limit int) (Listing, error) {
	return l.list(ctx, who, uri, walk{limit: limit})
}

// Children is List without what lies deeper than the directory itself.
func (l *Local) Children(ctx context.Context, who Principal, uri viking.URI, limit int) (Listing, error) {
	return l.list(ctx, who, uri, walk{limit: limit, flat: true})
}

func (l *Local) list(ctx context.Context, who Principal, uri viking.URI, w walk) (Listing, error) {
	at, err := readLocation(ctx, who, uri)
	if err != nil {
		return Listing{}, err
	}
	w.uri, w.limit = at.uri, listLimit(w.limit)
	dir, err := l.openDir(at.segments)
	if err != nil {
		return Listing{}, diskError("list", at.uri.String(), err)
	}
	defer closeQuietly(dir)
	if err := w.dir(ctx, dir, ""); err != nil {
		return Listing{}, diskError("list", at.uri.String(), err)
	}
	return w.listing, nil
}

// listLimit bounds what a caller asks for.
func listLimit(limit int) int {
	if limit <= 0 || limit > MaxListEntries {
		return MaxListEntries
	}
	return limit
}

type walk struct {
	uri   viking.URI
	limit int
	// flat keeps to the directory at uri.
	flat    bool
	listing Listing
}

func (w *walk) dir(ctx context.Context, dir *os.Root, prefix string) error {
	// One more than what fits tells a full listing from a truncated one.
	entries, err := w.firstEntries(dir, prefix, w.limit-len(w.listing.Entries)+1)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if err := ctx.Err(); err != nil {
			return err
		}
		if w.listing.Truncated {
			return nil
		}
		if err := w.entry(ctx, dir, prefix+entry.Name(), entry.Name()); err != nil {
			return err
		}
	}
	return nil
}

// entry adds one entry and what lies below it. An entry that changed its kind
// meanwhile is left out.
func (w *walk) entry(ctx context.Context, dir *os.Root, path, name string) error {
	uri, err := w.uri.Join(path)
	if err != nil {
		return err // lists has let the name through
	}
	stat, err := dir.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	info, err := describe(uri.String(), path, stat)
	if err != nil {
		w.listing.Skipped++
		return nil
	}
	if len(w.listing.Entries) >= w.limit {
		w.listing.Truncated = true
		return nil
	}
	w.listing.Entries = append(w.listing.Entries, info)
	if !info.Dir || w.flat {
		return nil
	}
	next, err := enter(dir, name)
	if IsNotFound(err) || IsInvalid(err) || IsConflict(err) || errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer closeQuietly(next)
	return w.dir(ctx, next, path+"/")
}

// firstEntries returns the first keep entries of dir to list, in name order. It
// holds a small multiple of keep at a time, however large the directory.
func (w *walk) firstEntries(dir *os.Root, prefix string, keep int) ([]fs.DirEntry, error) {
	f, err := dir.Open(".")
	if err != nil {
		return nil, err
	}
	defer closeQuietly(f)
	var entries []fs.DirEntry
	for {
		chunk, err := f.ReadDir(readChunk)
		for _, entry := range chunk {
			if w.lists(entry, prefix) {
				entries = append(entries, entry)
			}
		}
		if len(entries) > 2*keep+readChunk {
			entries = smallest(entries, keep)
		}
		if errors.Is(err, io.EOF) {
			return smallest(entries, keep), nil
		}
		if err != nil {
			return nil, err
		}
	}
}

// lists reports whether an entry belongs into the listing, and counts it when it
// is one to be missed. No URI names what lies too deep or has an odd name.
func (w *walk) lists(entry fs.DirEntry, prefix string) bool {
	if Hidden(entry.Name()) {
		return false
	}
	uri, err := w.uri.Join(prefix + entry.Name())
	if err == nil && viking.InPrivacy(uri) {
		return false
	}
	if err != nil || !entry.Type().IsRegular() && !entry.IsDir() {
		w.listing.Skipped++
		return false
	}
	return true
}

func smallest(entries []fs.DirEntry, keep int) []fs.DirEntry {
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return cmp.Compare(a.Name(), b.Name()) })
	return entries[:min(len(entries), keep)]
}

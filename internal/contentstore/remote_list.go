package contentstore

import (
	"context"
	"slices"
	"strconv"
	"strings"

	"github.com/agentruntime/operator/internal/fileapi"
	"github.com/agentruntime/operator/internal/viking"
)

// List implements [Reader]. Where the server cuts the listing short in an order of
// its own, what is listed is in path order, but need not be that order's beginning.
// Entries that lie outside the directory are left out and counted.
func (r *remoteReader) List(ctx context.Context, who Principal, uri viking.URI, limit int) (Listing, error) {
	at, err := readLocation(ctx, who, uri)
	if err != nil {
		return Listing{}, err
	}
	limit = listLimit(limit)
	answer, err := r.get(ctx, who, at.uri, request{
		path: fileapi.PathList,
		query: map[string]string{
			fileapi.ParamRecursive: "true",
			fileapi.ParamOutput:    fileapi.OutputOriginal,
			// One more than what fits tells a full listing from one that was cut
			// in silence.
			fileapi.ParamNodeLimit: strconv.Itoa(limit + 1),
		},
		limit: fileapi.MaxListBytes,
	})
	if err != nil {
		return Listing{}, err
	}
	entries, err := answer.Entries()
	if err != nil {
		return Listing{}, notTheAPI(at.uri.String())
	}
	l := listingOf(at.uri, entries, limit)
	l.Truncated = l.Truncated || answer.HasMore || len(entries) > limit
	l.Skipped += answer.Skipped
	return l, nil
}

// listingOf makes a listing of what a server sent, which may be anything.
func listingOf(root viking.URI, entries []fileapi.Entry, limit int) Listing {
	var l Listing
	seen := make(map[string]bool, len(entries))
	for _, entry := range entries {
		path := pathBelow(root, entry)
		if seen[path] || hiddenPath(path) {
			continue
		}
		uri, err := root.Join(path)
		if err != nil {
			l.Skipped++
			continue
		}
		if viking.InPrivacy(uri) {
			continue
		}
		seen[path] = true
		info := Info{URI: uri.String(), Path: path, Dir: entry.IsDir}
		if !entry.IsDir {
			info.Size = entry.Size
		}
		l.Entries = append(l.Entries, info)
	}
	slices.SortFunc(l.Entries, func(a, b Info) int { return comparePaths(a.Path, b.Path) })
	if len(l.Entries) > limit {
		l.Entries, l.Truncated = l.Entries[:limit], true
	}
	return l
}

// pathBelow returns an entry's path relative to root, as the entry tells it itself
// or by its URI; "" when it does neither. The path may be anything.
func pathBelow(root viking.URI, entry fileapi.Entry) string {
	if path := strings.TrimSuffix(entry.RelPath, "/"); path != "" {
		return path
	}
	uri, fault := viking.Parse("uri", entry.URI)
	if fault != nil {
		return ""
	}
	path, _ := uri.Rel(root)
	return path
}

func hiddenPath(path string) bool {
	return slices.ContainsFunc(strings.Split(path, "/"), func(name string) bool {
		return Hidden(name) && name != "." && name != ".."
	})
}

// comparePaths orders paths segment by segment, so that a directory comes right
// before what it holds.
func comparePaths(a, b string) int {
	return slices.Compare(strings.Split(a, "/"), strings.Split(b, "/"))
}

package viking

import (
	"fmt"
	"slices"
	"strings"
)

// Scheme is the prefix of every URI, to be matched exactly (G.1).
const Scheme = "viking://"

// Bounds of a URI; all are checked on the canonical form.
const (
	// MaxURIBytes bounds a whole URI, the scheme included (B.1).
	MaxURIBytes = 4096
	// MaxSegmentBytes bounds one segment: what a file system can hold.
	MaxSegmentBytes = 255
	// MaxDepth bounds the number of segments, the scope included.
	MaxDepth = 64
)

// The public scopes (G.1).
const (
	ScopeResources = "resources"
	ScopeUser      = "user"
	ScopeAgent     = "agent"
)

// URI is a canonical viking:// URI. Equal URIs are equal with ==, so it can be a
// map key. The zero URI is the root, "viking://".
type URI struct {
	// path is the segments joined by '/', without scheme and outer slashes.
	path string
}

// String returns the canonical text, which parses to the same URI.
func (u URI) String() string { return Scheme + u.path }

// IsRoot reports whether u is "viking://" itself.
func (u URI) IsRoot() bool { return u.path == "" }

// Scope returns the first segment, or "" for the root.
func (u URI) Scope() string {
	scope, _, _ := strings.Cut(u.path, "/")
	return scope
}

// Segments returns the segments, the scope first. The caller owns the slice.
func (u URI) Segments() []string {
	if u.path == "" {
		return nil
	}
	return strings.Split(u.path, "/")
}

// Base returns the last segment, or "" for the root.
func (u URI) Base() string { return u.path[strings.LastIndexByte(u.path, '/')+1:] }

// Parent returns the URI one segment up; the root is its own parent.
func (u URI) Parent() URI { return URI{path: u.path[:max(strings.LastIndexByte(u.path, '/'), 0)]} }

// Within reports whether u is root or lies below it.
func (u URI) Within(root URI) bool {
	_, ok := u.Rel(root)
	return ok
}

// Rel returns the path from root down to u, "" when they are equal, and whether
// u is within root at all.
func (u URI) Rel(root URI) (string, bool) {
	if root.path == "" {
		return u.path, true
	}
	rest, ok := strings.CutPrefix(u.path, root.path)
	if !ok || rest == "" {
		return "", ok
	}
	return strings.CutPrefix(rest, "/")
}

// Join returns the URI of a relative path below u. The path must pass
// [CheckRelativePath], and the result must be a URI within the bounds of this
// package and the grammar of G.1; the result is always within u.
func (u URI) Join(rel string) (URI, error) {
	if err := CheckRelativePath(rel); err != nil {
		return URI{}, err
	}
	joined := rel
	if u.path != "" {
		joined = u.path + "/" + rel
	}
	out, fault := Parse("path", Scheme+joined)
	if fault != nil {
		return URI{}, fmt.Errorf("join %q below %s: %w", rel, u, fault)
	}
	return out, nil
}

// User returns the uid whose tree u is in: the second segment of the user scope.
// It is "" elsewhere, and for viking://user itself.
func (u URI) User() string {
	rest, ok := strings.CutPrefix(u.path, ScopeUser+"/")
	if !ok {
		return ""
	}
	uid, _, _ := strings.Cut(rest, "/")
	return uid
}

// derivedNames are the sidecar files that the content store makes itself (B.2).
var derivedNames = []string{".abstract.md", ".overview.md", ".relations.json", ".source.json"}

// IsDerivedName reports whether a file name is a derived sidecar's (B.2, F.10),
// in any letter case, for a file system may fold case.
func IsDerivedName(name string) bool {
	return slices.ContainsFunc(derivedNames, func(d string) bool { return strings.EqualFold(d, name) })
}

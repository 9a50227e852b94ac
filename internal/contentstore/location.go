package contentstore

import (
	"context"
	"slices"
	"strings"

	"github.com/agentruntime/operator/internal/viking"
)

// location is where a URI's content lies below the store's directory.
type location struct {
	uri viking.URI
	// segments begin with the account.
	segments []string
	// identity is how many segments say whose tree it is. They are compared as
	// they are written: users whose names differ only by case are two users.
	identity int
}

func (at location) parent() []string { return at.segments[:len(at.segments)-1] }
func (at location) base() string     { return at.segments[len(at.segments)-1] }

// up returns the location of the directory that holds at.
func (at location) up() location {
	return location{uri: at.uri.Parent(), segments: at.parent(), identity: at.identity}
}

// locate finds the content of uri and refuses what who may not name (G.4).
func locate(ctx context.Context, who Principal, uri viking.URI) (location, error) {
	if err := ctx.Err(); err != nil {
		return location{}, err
	}
	if !viking.ValidID(who.Account) || strings.ContainsAny(who.Account[:1], "_.") {
		return location{}, refuse(KindInvalid, "", "account name is not valid")
	}
	if uri.IsRoot() {
		return location{}, refuse(KindInvalid, uri.String(), "names no tree")
	}
	if !(viking.Caller{User: who.User}).MayUse(uri) {
		return location{}, refuse(KindDenied, uri.String(), "is not the caller's own tree")
	}
	if viking.InPrivacy(uri) {
		return location{}, refuse(KindDenied, uri.String(), "private settings are no content")
	}
	at := location{uri: uri, segments: append([]string{who.Account}, uri.Segments()...), identity: 2}
	if uri.Scope() == viking.ScopeUser {
		at.identity = 3
	}
	return at, nil
}

// readLocation is locate for a reader, for whom hidden names do not exist.
func readLocation(ctx context.Context, who Principal, uri viking.URI) (location, error) {
	at, err := locate(ctx, who, uri)
	if err == nil && slices.ContainsFunc(at.segments[at.identity:], Hidden) {
		err = refuse(KindNotFound, uri.String(), "does not exist")
	}
	return at, err
}

// writeLocation is locate for a writer, who may write inside a scope, or inside
// the own user tree, only.
func writeLocation(ctx context.Context, who Principal, uri viking.URI) (location, error) {
	at, err := locate(ctx, who, uri)
	switch {
	case err != nil:
		return location{}, err
	case len(at.segments) <= at.identity:
		return location{}, refuse(KindInvalid, uri.String(), "is no directory to write to")
	case slices.ContainsFunc(at.segments[at.identity:], Hidden):
		return location{}, refuse(KindInvalid, uri.String(), "uses a hidden or derived name")
	}
	return at, nil
}

// child finds a file of a batch: path is relative to at, or a URI inside it.
func (at location) child(path string) (location, error) {
	rel := path
	if strings.HasPrefix(path, viking.Scheme) {
		uri, fault := viking.Parse("path", path)
		if fault != nil {
			return location{}, &Error{Kind: KindInvalid, Reason: "batch path is no URI", Err: fault}
		}
		inside := false
		if rel, inside = uri.Rel(at.uri); !inside {
			return location{}, refuse(KindInvalid, uri.String(), "lies outside the batch's root")
		}
	}
	uri, err := at.uri.Join(rel)
	if err != nil {
		return location{}, &Error{Kind: KindInvalid, Reason: "batch path", Err: err}
	}
	segments := slices.Concat(at.segments, strings.Split(rel, "/"))
	return location{uri: uri, segments: segments, identity: at.identity}, nil
}

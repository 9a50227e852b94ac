package contentstore

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"
)

// Kind says what kind of failure an [Error] is. Its text is the protocol's code
// of the same meaning (A.3).
type Kind string

// The kinds of failure a store reports.
const (
	// KindInvalid is a request that can never succeed as it stands.
	KindInvalid Kind = "INVALID_ARGUMENT"
	// KindNotFound is a path at which nothing the caller may see exists.
	KindNotFound Kind = "NOT_FOUND"
	// KindDenied is another user's tree (G.4).
	KindDenied Kind = "PERMISSION_DENIED"
	// KindConflict is a busy target, or a path that something else stands in the
	// way of: a directory, or a name that differs only by case.
	KindConflict Kind = "CONFLICT"
	// KindExhausted is a limit of section F.1, a full disk, or a store that takes no
	// more requests.
	KindExhausted Kind = "RESOURCE_EXHAUSTED"
	// KindUnauthenticated is a credential that the store does not know, or none.
	KindUnauthenticated Kind = "UNAUTHENTICATED"
	// KindUnavailable is a store that can't be asked now: it is not reached, does
	// not answer as it should, or refuses the operator itself.
	KindUnavailable Kind = "UNAVAILABLE"
	// KindInternal is everything else, such as a failing disk.
	KindInternal Kind = "INTERNAL"
)

// Error is a failed operation of a store. Path is a viking:// URI or a path
// relative to a batch's root, never a path of the local disk.
type Error struct {
	Kind Kind
	Path string
	// Reason is a phrase for people.
	Reason string
	// Err is the cause, nil when the store itself refused.
	Err error
}

// Error implements the error interface.
func (e *Error) Error() string {
	text := e.Reason
	if e.Path != "" {
		text = fmt.Sprintf("%s: %s", e.Path, e.Reason)
	}
	if e.Err != nil {
		text += ": " + e.Err.Error()
	}
	return text
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// KindOf returns the kind of err, KindInternal when no store made it.
func KindOf(err error) Kind {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Kind
	}
	return KindInternal
}

// IsNotFound reports whether err says that nothing exists at the path.
func IsNotFound(err error) bool { return isKind(err, KindNotFound) }

// IsDenied reports whether err says that the tree is another user's.
func IsDenied(err error) bool { return isKind(err, KindDenied) }

// IsInvalid reports whether err says that the request is malformed.
func IsInvalid(err error) bool { return isKind(err, KindInvalid) }

// IsConflict reports whether err says that the target is busy or occupied.
func IsConflict(err error) bool { return isKind(err, KindConflict) }

// IsExhausted reports whether err says that a limit was passed or the disk is
// full.
func IsExhausted(err error) bool { return isKind(err, KindExhausted) }

// IsUnauthenticated reports whether err says that the caller has no credential that
// the store knows.
func IsUnauthenticated(err error) bool { return isKind(err, KindUnauthenticated) }

// IsUnavailable reports whether err says that the store can't be asked now.
func IsUnavailable(err error) bool { return isKind(err, KindUnavailable) }

func isKind(err error, kind Kind) bool {
	e, ok := errors.AsType[*Error](err)
	return ok && e.Kind == kind
}

func refuse(kind Kind, path, format string, args ...any) *Error {
	return &Error{Kind: kind, Path: path, Reason: fmt.Sprintf(format, args...)}
}

// diskError turns what the operating system said into an Error. The local path
// inside a *fs.PathError is dropped: users know URIs, not our disk. What is missing
// is said as of any store, since a missing source is what users get to see.
func diskError(action, path string, err error) error {
	if err == nil {
		return nil
	}
	if e, ok := errors.AsType[*Error](err); ok {
		if e.Path == "" {
			return &Error{Kind: e.Kind, Path: path, Reason: e.Reason, Err: e.Err}
		}
		return e
	}
	if errors.Is(err, fs.ErrNotExist) {
		return refuse(KindNotFound, path, "does not exist")
	}
	return &Error{Kind: kindOfDisk(err), Path: path, Reason: action, Err: bareCause(err)}
}

func kindOfDisk(err error) Kind {
	switch {
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return KindExhausted
	case errors.Is(err, syscall.ENAMETOOLONG):
		return KindInvalid
	default:
		return KindInternal
	}
}

func bareCause(err error) error {
	if pathErr, ok := errors.AsType[*fs.PathError](err); ok {
		return pathErr.Err
	}
	if linkErr, ok := errors.AsType[*os.LinkError](err); ok {
		return linkErr.Err
	}
	return err
}

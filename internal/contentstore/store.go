package contentstore

import (
	"context"
	"io"

	"github.com/agentruntime/operator/internal/viking"
)

// Limits of one batch write (F.1).
const (
	// MaxBatchOperations bounds the operations of one call.
	MaxBatchOperations = 256
	// MaxBatchFileBytes bounds the content of one operation.
	MaxBatchFileBytes = 8 << 20
	// MaxBatchBytes bounds the content of one call.
	MaxBatchBytes = 16 << 20
	// MaxListEntries bounds one listing (F.1).
	MaxListEntries = 5000
)

// Principal is on whose behalf a store is used. Account selects the tree; User
// decides which viking://user/<uid> subtree is open (G.4).
type Principal struct {
	Account string
	User    string
}

// Info describes a file or a directory.
type Info struct {
	// URI is canonical.
	URI string
	// Path is relative to the root of the listing, with slashes; empty for Stat.
	Path string
	Dir  bool
	// Size is in bytes, 0 for a directory.
	Size int64
}

// Listing is a directory's tree in path order: a directory comes right before
// what it holds.
type Listing struct {
	Entries []Info
	// Truncated is set when there was more than the limit allowed. What is
	// listed then is the beginning of the order.
	Truncated bool
	// Skipped counts what was left out though a reader would look for it: symbolic
	// links, special files, and files and directories that no URI can name. Of a
	// directory that is left out only itself is counted.
	Skipped int
}

// Operation writes one file.
type Operation struct {
	// Path is relative to the batch's root, or a viking:// URI inside it.
	Path    string
	Content []byte
	// Upsert allows the file to exist. Without it an existing file is a conflict.
	Upsert bool
}

// Batch is a set of files to write below one directory. The directory is created
// when it is missing.
type Batch struct {
	Root       viking.URI
	Operations []Operation
}

// BatchResult says what became of a batch's files, as URIs in the batch's order.
type BatchResult struct {
	Created   []string
	Updated   []string
	Unchanged []string
}

// Reader looks at the content behind viking:// URIs. Implementations are safe for
// concurrent use. Names that begin with a dot and OpenViking's derived files do not
// exist for it (F.10).
type Reader interface {
	// Stat describes what stands at uri.
	Stat(ctx context.Context, who Principal, uri viking.URI) (Info, error)
	// List walks the directory at uri. At most limit entries are returned, and
	// never more than MaxListEntries; limit 0 means MaxListEntries.
	List(ctx context.Context, who Principal, uri viking.URI, limit int) (Listing, error)
	// Read returns the file at uri whole; a file of more than limit bytes is
	// KindExhausted.
	Read(ctx context.Context, who Principal, uri viking.URI, limit int64) ([]byte, error)
}

// Store is a Reader that can be written to. The names that do not exist for a
// reader are refused to a writer.
type Store interface {
	Reader
	// Open opens the file at uri for reading. The caller closes it.
	Open(ctx context.Context, who Principal, uri viking.URI) (io.ReadCloser, error)
	// MakeDir creates the directory at uri, and those above it, when missing.
	MakeDir(ctx context.Context, who Principal, uri viking.URI) error
	// BatchWrite writes files. Every operation is checked before the first is
	// carried out, nothing is ever deleted, and a file equal to its new content is
	// left alone. After a failure each file is either the old or the new one,
	// whole; the result names those that are done, and a repeat is safe.
	BatchWrite(ctx context.Context, who Principal, batch Batch) (BatchResult, error)
}

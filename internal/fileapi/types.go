package fileapi

// Routes of the API. All take GET.
const (
	PathStat = "/api/v1/fs/stat"
	PathList = "/api/v1/fs/ls"
	PathRead = "/api/v1/content/read"
)

// Query parameters.
const (
	ParamURI       = "uri"
	ParamRecursive = "recursive"
	ParamSimple    = "simple"
	ParamOutput    = "output"
	ParamNodeLimit = "node_limit"
	ParamLimit     = "limit"
	ParamOffset    = "offset"
	ParamTags      = "tags"
	ParamRaw       = "raw"
)

// The values of ParamOutput.
const (
	OutputAgent    = "agent"
	OutputOriginal = "original"
)

// Bounds.
const (
	// DefaultListEntries is how many entries a list has that names no limit.
	DefaultListEntries = 1000
	// MaxListBytes bounds the body of an answer that holds no file's text.
	MaxListBytes = 4 << 20
	// MaxReadBytes bounds a file that is read.
	MaxReadBytes = 8 << 20
)

// The values of an envelope's status.
const (
	StatusOK    = "ok"
	StatusError = "error"
)

// Entry is a file or a directory: the result of PathStat, and each of PathList's.
type Entry struct {
	Name string `json:"name,omitempty"`
	URI  string `json:"uri,omitempty"`
	// RelPath is relative to the directory that was listed recursively.
	RelPath string `json:"rel_path,omitempty"`
	IsDir   bool   `json:"isDir"`
	// Size is in bytes; what it is of a directory is not defined.
	Size int64 `json:"size"`
}

// Success is the envelope of an answer (A.1).
type Success struct {
	Status string `json:"status"`
	Result any    `json:"result"`
}

// ListSuccess is the envelope of PathList's answer.
type ListSuccess struct {
	Success
	// HasMore says that there was more than the limit allowed.
	HasMore bool `json:"has_more"`
	// Skipped counts what was left out because no URI can name it, or because it is
	// neither a file nor a directory.
	Skipped int `json:"skipped,omitempty"`
}

// Failure is the envelope of an error (A.2).
type Failure struct {
	Status string `json:"status"`
	Error  Error  `json:"error"`
}

// Error says what went wrong.
type Error struct {
	// Code is one of A.3.
	Code    string         `json:"code"`
	Message string         `json:"message"`
	Details map[string]any `json:"details,omitempty"`
}

package compile

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"

	"github.com/agentruntime/operator/internal/runtime/compile/okf"
	"github.com/agentruntime/operator/internal/runtime/compile/skill"
	"github.com/agentruntime/operator/internal/viking"
)

// DefaultInstruction stands in for a request without one (B.5).
const DefaultInstruction = "Follow the loaded Skill and turn the given sources into the outputs that it asks for."

// Compiler makes the output of a compile. It writes nothing itself: what it
// returns is checked and written by the engine. Implementations are safe for
// concurrent use.
type Compiler interface {
	// Compile returns the files that the target should hold. It stops soon after
	// ctx ends. Errors are *runtimeapi.Error with a code of section F.3, or
	// ctx's.
	Compile(ctx context.Context, ws *Workspace) (*Bundle, error)
}

// Admitter is a Compiler that can tell, before a task is admitted and a target
// created, that it will not be able to do it.
type Admitter interface {
	// Admit returns a *runtimeapi.Error when a task with this Skill and this type
	// of target cannot be compiled.
	Admit(s *skill.Skill, target viking.ContextType) error
}

// Workspace is what a compiler works from. It is read-only, and belongs to one
// run.
type Workspace struct {
	Skill *skill.Skill
	// SkillFiles are all files of the Skill's directory, SKILL.md included.
	SkillFiles []File
	// Instruction is the caller's, or DefaultInstruction.
	Instruction string
	// ModelName is empty unless the operator allowed the one that was asked for.
	ModelName string
	// To is the target's canonical URI.
	To string
	// TargetType says by which rules the output is checked (F.10).
	TargetType viking.ContextType
	// Sources are in request order.
	Sources []Source
	// Target is what the target holds now, by path.
	Target []TargetFile
}

// Source is one item of from with its files.
type Source struct {
	// ID is src_1, src_2, … in request order (F.7).
	ID string
	// URI is canonical.
	URI string
	// Files are by path. Hidden and derived files are left out, and so is what
	// lies in the target, so that output does not become input; only a source
	// that lies inside the target itself gives all it holds.
	Files []SourceFile
}

// Status says whether a source file can be read as text (F.7).
type Status string

// The statuses of a source file.
const (
	StatusMaterialized  Status = "materialized"
	StatusBinary        Status = "skipped:binary"
	StatusDownloadError Status = "skipped:download-error"
)

// SourceFile is a file of a source.
type SourceFile struct {
	File
	Status Status
}

// TargetFile is a file of the target as it is before the run.
type TargetFile struct {
	File
	// Page is nil for a file that is no page.
	Page *okf.Page
}

// File is a file that a compiler may read.
type File struct {
	URI string
	// Path is relative to the root it was found under.
	Path string
	// Size is in bytes, as listed.
	Size int64
	// Open reads the file as the task's user.
	Open func(ctx context.Context) (io.ReadCloser, error)
}

// Head returns the first limit bytes of the file, and whether that is all.
func (f File) Head(ctx context.Context, limit int64) (content []byte, whole bool, err error) {
	if err := ctx.Err(); err != nil {
		return nil, false, err
	}
	r, err := f.Open(ctx)
	if err != nil {
		return nil, false, fmt.Errorf("open %s: %w", f.URI, err)
	}
	defer func() { _ = r.Close() }()
	var buf bytes.Buffer
	buf.Grow(int(max(0, min(f.Size, limit))) + bytes.MinRead)
	n, err := io.Copy(&buf, io.LimitReader(r, limit+1))
	if err != nil {
		return nil, false, fmt.Errorf("read %s: %w", f.URI, err)
	}
	if n > limit {
		return buf.Bytes()[:limit], false, nil
	}
	return buf.Bytes(), true, nil
}

// Bundle is a compiler's output.
type Bundle struct {
	// Files need not include those of the target that stay as they are: nothing is
	// deleted. Equal content counts as unchanged.
	Files []OutputFile
	// LinkCount is how many links between pages were made (F.4).
	LinkCount int
	Warnings  []string
	// Meta is a JSON object, for example with token_usage; nil for none.
	Meta json.RawMessage
}

// OutputFile is a file to write.
type OutputFile struct {
	// Path is relative to the target.
	Path    string
	Content []byte
}

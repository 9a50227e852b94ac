package extractive

import (
	"context"
	"fmt"
	"unicode/utf8"

	"github.com/agentruntime/operator/internal/runtime/compile"
	"github.com/agentruntime/operator/internal/runtime/compile/skill"
	"github.com/agentruntime/operator/internal/runtimeapi"
	"github.com/agentruntime/operator/internal/viking"
)

// Kind is the kind of Skill this compiler follows.
const Kind = "llm-wiki"

// WarnNoModel is the first warning of every result.
const WarnNoModel = "No model was used: pages quote their sources, and topics were found by counting words."

// maxDocumentBytes bounds how much of one source file is read. A page says so when
// there was more.
const maxDocumentBytes = 2 << 20

// Compiler makes a wiki without a model. The zero value is ready to use.
type Compiler struct{}

var (
	_ compile.Compiler = Compiler{}
	_ compile.Admitter = Compiler{}
)

// New returns a Compiler.
func New() Compiler { return Compiler{} }

// Admit implements [compile.Admitter].
func (Compiler) Admit(s *skill.Skill, target viking.ContextType) error {
	refuse := func(format string, args ...any) error {
		return &runtimeapi.Error{Code: runtimeapi.CodeSkillCapabilityUnavailable, Message: fmt.Sprintf(format, args...)}
	}
	kind := s.Kind
	if kind == "" {
		kind = s.Name
	}
	if kind != Kind {
		return refuse("Skill %s needs a model, and none is configured; without one only Skills of kind %s can be compiled", s.Name, Kind)
	}
	if target != viking.TypeResource {
		return refuse("a %s target needs a model, and none is configured; without one only resource targets can be compiled", target)
	}
	return nil
}

// Compile implements [compile.Compiler].
func (c Compiler) Compile(ctx context.Context, ws *compile.Workspace) (*compile.Bundle, error) {
	if err := c.Admit(ws.Skill, ws.TargetType); err != nil {
		return nil, err
	}
	w := wiki{ws: ws, words: newStemmer(), warnings: []string{WarnNoModel}}
	if err := w.read(ctx); err != nil {
		return nil, err
	}
	if len(w.docs) == 0 {
		return &compile.Bundle{Warnings: w.warnings}, nil
	}
	w.assign()
	if err := w.relate(ctx); err != nil {
		return nil, err
	}
	files, err := w.render(ctx)
	if err != nil {
		return nil, err
	}
	return &compile.Bundle{Files: files, LinkCount: w.links, Warnings: w.warnings}, nil
}

// wiki is one compile on its way.
type wiki struct {
	ws       *compile.Workspace
	words    *stemmer
	warnings []string
	// docs are in source order, one for each file, filled by read.
	docs []*document
	// old are the target's pages that earlier runs made, by source; filled by
	// assign.
	old map[string]compile.TargetFile
	// index is where the index goes, and its title; filled by assign.
	indexPath, indexTitle string
	// clusters are groups of related docs, and spread is in how many documents' vectors
	// each term is; filled by relate.
	clusters []cluster
	spread   []int
	// links counts the links between pages that render wrote.
	links int
}

// read reads every text file of the sources once, whatever the number of sources
// it lies in, and keeps what the wiki needs of it.
func (w *wiki) read(ctx context.Context) error {
	own := make(map[string]bool, len(w.ws.Target))
	for _, file := range w.ws.Target {
		if isOurs(file) {
			own[file.URI] = true
		}
	}
	seen := make(map[string]bool)
	for _, source := range w.ws.Sources {
		for _, file := range source.Files {
			if file.Status != compile.StatusMaterialized || seen[file.URI] {
				continue
			}
			seen[file.URI] = true
			if own[file.URI] {
				w.warnings = append(w.warnings, file.URI+" is a page of the target and was not taken as a source")
				continue
			}
			if err := w.readFile(ctx, file.File); err != nil {
				return err
			}
		}
	}
	return nil
}

func (w *wiki) readFile(ctx context.Context, file compile.File) error {
	content, whole, err := file.Head(ctx, maxDocumentBytes)
	if end := ctx.Err(); end != nil {
		return end
	}
	if err != nil {
		w.warnings = append(w.warnings, file.URI+" could not be read")
		return nil //nolint:nilerr // a file that cannot be read is a warning (F.7)
	}
	if !whole {
		content = content[:wholeRunes(content)]
		w.warnings = append(w.warnings, fmt.Sprintf("%s is larger than %d bytes; its page covers the beginning", file.URI, maxDocumentBytes))
	}
	if !utf8.Valid(content) {
		// It was text when the engine looked, and has changed since.
		w.warnings = append(w.warnings, file.URI+" is not UTF-8 text and was skipped")
		return nil
	}
	w.docs = append(w.docs, readDocument(w.words, file, content, whole))
	return nil
}

// wholeRunes returns the length of content without a rune that was cut off at its
// end.
func wholeRunes(content []byte) int {
	for back := 1; back < utf8.UTFMax && back <= len(content); back++ {
		tail := content[len(content)-back:]
		if utf8.RuneStart(tail[0]) {
			if !utf8.FullRune(tail) {
				return len(content) - back
			}
			break
		}
	}
	return len(content)
}

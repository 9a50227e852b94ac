package compile

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"
	"unicode/utf8"

	"github.com/agentruntime/operator/internal/contentstore"
	"github.com/agentruntime/operator/internal/runtime/compile/okf"
	"github.com/agentruntime/operator/internal/runtimeapi"
	"github.com/agentruntime/operator/internal/viking"
)

// collect is the stage collecting_context: it takes stock of sources and target.
// Files stay in the store; only what they are is kept.
func (r *run) collect(ctx context.Context) error {
	stock := stocktaking{run: r}
	for i, uri := range r.uris.from {
		source, err := stock.source(ctx, fmt.Sprintf("src_%d", i+1), uri)
		if err != nil {
			return readError(err)
		}
		r.ws.Sources = append(r.ws.Sources, source)
	}
	return readError(r.collectTarget(ctx))
}

// stocktaking counts what all sources of a run hold together.
type stocktaking struct {
	run   *run
	files int
	bytes int64
}

func (s *stocktaking) source(ctx context.Context, id string, uri viking.URI) (Source, error) {
	r := s.run
	listing, err := r.engine.store.List(ctx, r.uris.who, uri, listLimit)
	if err != nil {
		return Source{}, err
	}
	if listing.Truncated {
		r.warn("%s holds more than %d entries; the rest was not read", uri, listLimit)
	}
	if uri == r.uris.to {
		r.warn("%s is the source and the target; its own pages are not taken as sources", uri)
	}
	if listing.Skipped > 0 {
		r.warn("%s: entries left out: %d; their names can't be used, or they are no regular files", uri, listing.Skipped)
	}
	source := Source{ID: id, URI: uri.String()}
	for _, file := range r.files(listing) {
		if r.isOutput(uri, file.URI) {
			continue
		}
		status, err := s.file(ctx, file)
		if err != nil {
			return Source{}, err
		}
		source.Files = append(source.Files, SourceFile{File: file, Status: status})
	}
	return source, nil
}

// isOutput reports whether a file found under root lies in the target, unless root
// itself does.
func (r *run) isOutput(root viking.URI, file string) bool {
	inside := root != r.uris.to && root.Within(r.uris.to)
	return !inside && strings.HasPrefix(file, r.uris.to.String()+"/")
}

// file reads a source file through, to learn whether it is text and how large it
// really is. A file that cannot be read is a warning; a limit that is passed is an
// error.
func (s *stocktaking) file(ctx context.Context, file File) (Status, error) {
	limits := s.run.engine.limits
	if s.files++; s.files > limits.SourceFiles {
		return "", refuse(runtimeapi.CodeResourceExhausted, "sources hold more than %d files", limits.SourceFiles)
	}
	if s.bytes+file.Size > limits.SourceBytes {
		return "", refuse(runtimeapi.CodeResourceExhausted, "sources are larger than %d bytes", limits.SourceBytes)
	}
	size, text, err := s.scan(ctx, file, limits.SourceBytes-s.bytes)
	s.bytes += size
	switch {
	case ctx.Err() != nil:
		return "", ctx.Err()
	case s.bytes > limits.SourceBytes:
		return "", refuse(runtimeapi.CodeResourceExhausted, "sources are larger than %d bytes", limits.SourceBytes)
	case err != nil:
		s.run.warn("%s could not be read", file.URI)
		return StatusDownloadError, nil //nolint:nilerr // a warning, not a failure (F.7)
	case !text:
		s.run.warn("%s is not UTF-8 text and was skipped", file.URI)
		return StatusBinary, nil
	}
	return StatusMaterialized, nil
}

// scan reads a file, and at most a byte over limit, in bounded memory.
func (s *stocktaking) scan(ctx context.Context, file File, limit int64) (size int64, text bool, err error) {
	f, err := file.Open(ctx)
	if err != nil {
		return 0, false, err
	}
	defer func() { _ = f.Close() }()
	const chunk = 64 << 10
	buf := make([]byte, chunk)
	held := 0
	text = true
	for r := io.LimitReader(f, limit+1); ctx.Err() == nil; {
		n, err := r.Read(buf[held:])
		size += int64(n)
		if held += n; text {
			held, text = checkUTF8(buf, held, errors.Is(err, io.EOF))
		} else {
			held = 0
		}
		if errors.Is(err, io.EOF) {
			return size, text, nil
		}
		if err != nil {
			return size, false, err
		}
	}
	return size, false, ctx.Err()
}

// checkUTF8 reports whether the held bytes of buf are UTF-8 and moves a rune that
// goes on in the next chunk to the beginning.
func checkUTF8(buf []byte, held int, last bool) (rest int, ok bool) {
	end := held
	if !last {
		for back := 1; back < utf8.UTFMax && back <= held; back++ {
			if utf8.RuneStart(buf[held-back]) {
				if !utf8.FullRune(buf[held-back : held]) {
					end = held - back
				}
				break
			}
		}
	}
	if !utf8.Valid(buf[:end]) {
		return 0, false
	}
	return copy(buf, buf[end:held]), true
}

// collectTarget takes stock of the target. A target that is gone again is empty.
func (r *run) collectTarget(ctx context.Context) error {
	limits := r.engine.limits
	listing, err := r.engine.store.List(ctx, r.uris.who, r.uris.to, listLimit)
	if contentstore.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return err
	}
	files := r.files(listing)
	if listing.Truncated || len(files) > limits.TargetFiles {
		return refuse(runtimeapi.CodeResourceExhausted, "target holds more than %d files", limits.TargetFiles)
	}
	var total int64
	folded := make(map[string]string, len(files))
	for _, file := range files {
		if total += file.Size; total > limits.TargetBytes {
			return refuse(runtimeapi.CodeResourceExhausted, "target is larger than %d bytes", limits.TargetBytes)
		}
		key := contentstore.FoldPath(file.Path)
		if other, taken := folded[key]; taken {
			return refuse(runtimeapi.CodeConflict, "target holds %s and %s, which differ only by case", other, file.Path)
		}
		folded[key] = file.Path
		page, err := readPage(ctx, file)
		if err != nil {
			return err
		}
		r.ws.Target = append(r.ws.Target, TargetFile{File: file, Page: page})
	}
	return nil
}

// readPage reads the front matter of a file of the target. One that breaks the
// rules is no page; the rules bind what a run writes, not what it finds.
func readPage(ctx context.Context, file File) (*okf.Page, error) {
	if !isMarkdown(file.Path) {
		return nil, nil
	}
	// Room for the front matter, its delimiters and a byte order mark.
	head, _, err := file.Head(ctx, okf.MaxFrontBytes+64)
	if err != nil {
		return nil, err
	}
	page, err := okf.Parse(head)
	if err != nil {
		return nil, nil //nolint:nilerr // see above
	}
	return page, nil
}

func isMarkdown(file string) bool { return strings.EqualFold(path.Ext(file), ".md") }

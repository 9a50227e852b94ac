package extractive

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"path"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"

	"github.com/agentruntime/operator/internal/contentstore"
	"github.com/agentruntime/operator/internal/runtime/compile"
	"github.com/agentruntime/operator/internal/viking"
)

// The front matter fields by which a later run knows its pages again.
const (
	fieldGenerator = "generator"
	fieldSource    = "source"
	generator      = "extractive"
)

const (
	pageDir   = "concept"
	indexName = "index"
	pageExt   = ".md"
	maxSlug   = 80
)

// isOurs reports whether an earlier run made a file of the target.
func isOurs(file compile.TargetFile) bool {
	if file.Page == nil {
		return false
	}
	by, ok := file.Page.String(fieldGenerator)
	return ok && by == generator
}

// assign gives every document its page's path and a title of its own.
func (w *wiki) assign() {
	w.old = make(map[string]compile.TargetFile)
	taken := make(map[string]bool)
	for _, file := range w.ws.Target {
		for p := file.Path; p != "."; p = path.Dir(p) {
			taken[contentstore.FoldPath(p)] = true
		}
		if source, ok := sourceOf(file); ok {
			if _, twice := w.old[source]; !twice {
				w.old[source] = file
			}
		}
	}
	w.assignIndex(taken)
	for _, d := range w.docs {
		if old, ok := w.old[d.uri]; ok {
			d.page = old.Path
			continue
		}
		d.page = freePath(taken, path.Join(pageDir, slug(d.title)), d.uri)
	}
	w.assignTitles()
}

func sourceOf(file compile.TargetFile) (string, bool) {
	if !isOurs(file) {
		return "", false
	}
	return file.Page.String(fieldSource)
}

// assignIndex leaves an index that others made alone.
func (w *wiki) assignIndex(taken map[string]bool) {
	base := w.ws.To[strings.LastIndexByte(w.ws.To, '/')+1:]
	w.indexTitle = titleOfPath(base + pageExt)
	for _, name := range []string{indexName, indexName + "-" + generator, indexName + "-" + digest(w.ws.To)} {
		w.indexPath = name + pageExt
		old, exists := w.target(w.indexPath)
		if exists && isOurs(old) || !taken[contentstore.FoldPath(w.indexPath)] {
			taken[contentstore.FoldPath(w.indexPath)] = true
			break
		}
	}
	if w.indexPath != indexName+pageExt {
		w.warnings = append(w.warnings, fmt.Sprintf("%s was not made by this compiler and was left alone; the index is %s",
			indexName+pageExt, w.indexPath))
	}
}

func (w *wiki) target(file string) (compile.TargetFile, bool) {
	for _, old := range w.ws.Target {
		if old.Path == file {
			return old, true
		}
	}
	return compile.TargetFile{}, false
}

// freePath returns base.md, or, when that is taken, base with a mark of the source.
func freePath(taken map[string]bool, base, uri string) string {
	mark := digest(uri)
	for _, candidate := range []string{base, base + "-" + mark[:8], base + "-" + mark[:32]} {
		file := candidate + pageExt
		if key := contentstore.FoldPath(file); !taken[key] && viking.CheckRelativePath(file) == nil {
			taken[key] = true
			return file
		}
	}
	file := path.Join(pageDir, "page-"+mark+pageExt)
	taken[contentstore.FoldPath(file)] = true
	return file
}

func digest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

// slug makes a file name, without extension, of a title. Letters of every script
// stay as they are, in lower case.
func slug(title string) string {
	var out strings.Builder
	gap := false
	for _, r := range strings.ToLower(norm.NFC.String(title)) {
		if !unicode.IsLetter(r) && !unicode.IsDigit(r) && !unicode.IsMark(r) {
			gap = true
			continue
		}
		if out.Len()+utf8.RuneLen(r)+1 > maxSlug {
			break
		}
		if gap && out.Len() > 0 {
			out.WriteByte('-')
		}
		gap = false
		out.WriteRune(r)
	}
	switch name := out.String(); name {
	case "":
		return "page"
	case indexName:
		return indexName + "-page"
	default:
		return name
	}
}

// assignTitles makes titles unique, ignoring case. All documents that share a title
// get their path added, so that none depends on the order of the others.
func (w *wiki) assignTitles() {
	count := map[string]int{contentstore.FoldPath(w.indexTitle): 1}
	for _, d := range w.docs {
		count[contentstore.FoldPath(d.title)]++
	}
	used := map[string]bool{contentstore.FoldPath(w.indexTitle): true}
	for _, d := range w.docs {
		plain := d.title
		if count[contentstore.FoldPath(plain)] > 1 {
			d.title = fmt.Sprintf("%s (%s)", plain, cleanLine(d.path, maxTitle))
		}
		if used[contentstore.FoldPath(d.title)] {
			d.title = fmt.Sprintf("%s (%s)", plain, cleanLine(d.uri, maxTitle))
		}
		if used[contentstore.FoldPath(d.title)] {
			d.title = fmt.Sprintf("%s (%s)", plain, digest(d.uri)[:16])
		}
		used[contentstore.FoldPath(d.title)] = true
	}
}

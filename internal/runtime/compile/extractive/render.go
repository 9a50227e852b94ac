package extractive

import (
	"cmp"
	"context"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/agentruntime/operator/internal/runtime/compile"
	"github.com/agentruntime/operator/internal/runtime/compile/okf"
)

const (
	typePage  = "concept"
	typeIndex = "index"
)

// render writes all pages, then the index.
func (w *wiki) render(ctx context.Context) ([]compile.OutputFile, error) {
	files := make([]compile.OutputFile, 0, len(w.docs)+1)
	for _, d := range w.docs {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		file, err := w.renderPage(d)
		if err != nil {
			return nil, err
		}
		files = append(files, file)
	}
	index, err := w.renderIndex()
	if err != nil {
		return nil, err
	}
	return append(files, index), nil
}

func (w *wiki) renderPage(d *document) (compile.OutputFile, error) {
	fields := []okf.Field{
		{Name: okf.FieldType, Value: typePage},
		{Name: okf.FieldTitle, Value: d.title},
		{Name: okf.FieldDescription, Value: d.description()},
		{Name: fieldGenerator, Value: generator},
		{Name: fieldSource, Value: d.uri},
	}
	content, err := okf.Render(fields, w.old[d.uri].Page, w.pageBody(d))
	if err != nil {
		return compile.OutputFile{}, fmt.Errorf("render %s: %w", d.page, err)
	}
	return compile.OutputFile{Path: d.page, Content: content}, nil
}

func (d *document) description() string { return cmp.Or(d.lead, d.about) }

func (w *wiki) pageBody(d *document) string {
	var out strings.Builder
	source := link(cleanLine(path.Base(d.path), maxLabel), d.uri)
	fmt.Fprintf(&out, "# %s\n\n## Summary\n\n", headingText(d.title))
	if len(d.summary) == 0 {
		fmt.Fprintf(&out, "%s\n", lineText(d.about))
	} else {
		fmt.Fprintf(&out, "Quoted from %s:\n\n", source)
		for _, sentence := range d.summary {
			// As it stands: a line end inside it goes on in the same list item.
			fmt.Fprintf(&out, "- %s\n", sentence)
		}
	}
	if len(d.headings) > 0 {
		out.WriteString("\n## Sections of the source\n\n")
		for _, heading := range d.headings {
			fmt.Fprintf(&out, "- %s\n", lineText(heading))
		}
	}
	if len(d.keyTerms) > 0 {
		fmt.Fprintf(&out, "\n## Key terms\n\n%s\n", lineText(strings.Join(d.keyTerms, ", ")))
	}
	w.writeRelated(&out, d)
	fmt.Fprintf(&out, "\n## Sources\n\n- %s\n", link(cleanLine(d.path, maxLabel), d.uri))
	return out.String()
}

func (w *wiki) writeRelated(out *strings.Builder, d *document) {
	if len(d.neighbours) == 0 {
		return
	}
	out.WriteString("\n## Related pages\n\n")
	for _, n := range d.neighbours[:min(len(d.neighbours), maxRelated)] {
		other := w.docs[n.doc]
		fmt.Fprintf(out, "- %s", link(other.title, relative(d.page, other.page)))
		if terms := sharedTerms(d, other, 3); len(terms) > 0 {
			fmt.Fprintf(out, ": %s", inlineText(strings.Join(terms, ", ")))
		}
		out.WriteByte('\n')
		w.links++
	}
}

// relative returns the path to a page of the target from another one.
func relative(from, to string) string {
	dir := path.Dir(from)
	if dir == path.Dir(to) {
		return path.Base(to)
	}
	up := ""
	if dir != "." {
		up = strings.Repeat("../", strings.Count(dir, "/")+1)
	}
	return up + to
}

func (w *wiki) renderIndex() (compile.OutputFile, error) {
	old, _ := w.target(w.indexPath)
	fields := []okf.Field{
		{Name: okf.FieldType, Value: typeIndex},
		{Name: okf.FieldTitle, Value: w.indexTitle},
		{Name: okf.FieldDescription, Value: cleanLine(w.scope(), 2*maxLead)},
		{Name: fieldGenerator, Value: generator},
	}
	content, err := okf.Render(fields, old.Page, w.indexBody())
	if err != nil {
		return compile.OutputFile{}, fmt.Errorf("render %s: %w", w.indexPath, err)
	}
	return compile.OutputFile{Path: w.indexPath, Content: content}, nil
}

// scope says in a sentence what the wiki is about.
func (w *wiki) scope() string {
	documents := "one document"
	if n := len(w.docs); n > 1 {
		documents = fmt.Sprintf("%d documents", n)
	}
	all := make([]int, len(w.docs))
	for i := range all {
		all[i] = i
	}
	about := ""
	if terms := w.topTerms(all, min(2, len(all)), 5); len(terms) > 0 {
		about = ", above all about " + enumerate(terms)
	}
	return fmt.Sprintf("This wiki covers %s%s.", documents, about)
}

func enumerate(items []string) string {
	if len(items) == 1 {
		return items[0]
	}
	return strings.Join(items[:len(items)-1], ", ") + " and " + items[len(items)-1]
}

func (w *wiki) indexBody() string {
	var out strings.Builder
	fmt.Fprintf(&out, "# %s\n\n%s\n", headingText(w.indexTitle), inlineText(w.scope()))
	listed := map[string]bool{w.indexPath: true}
	for _, c := range w.clusters {
		fmt.Fprintf(&out, "\n## %s\n\n", w.clusterHeading(c))
		for _, doc := range c.docs {
			d := w.docs[doc]
			listed[d.page] = true
			fmt.Fprintf(&out, "- %s: %s\n", link(d.title, d.page), inlineText(d.description()))
			w.links++
		}
	}
	w.writeOthers(&out, listed)
	out.WriteString("\n## Sources\n\n")
	for _, source := range w.ws.Sources {
		fmt.Fprintf(&out, "- %s\n", link(cleanLine(source.URI, maxLabel), source.URI))
	}
	return out.String()
}

func (w *wiki) clusterHeading(c cluster) string {
	switch {
	case c.label != "":
		return headingText("Topic: " + c.label)
	case len(w.clusters) == 1:
		return "Pages"
	default:
		return "Other pages"
	}
}

// writeOthers lists the pages of the target that this run did not write.
func (w *wiki) writeOthers(out *strings.Builder, listed map[string]bool) {
	var others []compile.TargetFile
	for _, file := range w.ws.Target {
		if file.Page != nil && !listed[file.Path] {
			others = append(others, file)
		}
	}
	if len(others) == 0 {
		return
	}
	slices.SortFunc(others, func(a, b compile.TargetFile) int { return cmp.Compare(a.Path, b.Path) })
	out.WriteString("\n## Pages of earlier runs and other authors\n\n")
	for _, file := range others {
		title, about := cleanLine(file.Page.Title, maxTitle), cleanLine(file.Page.Description, maxLead)
		fmt.Fprintf(out, "- %s: %s\n", link(cmp.Or(title, file.Path), file.Path), inlineText(about))
		w.links++
	}
}

package extractive

import (
	"fmt"
	"path"
	"strings"

	"github.com/agentruntime/operator/internal/runtime/compile"
)

// Bounds of what is kept of one document.
const (
	maxSentences = 200
	maxHeadings  = 12
	maxTerms     = 300
	maxTitle     = 120
	maxKeyTerms  = 15
	maxLabel     = 200
)

// document is what the wiki keeps of a source file. The text itself is not kept.
type document struct {
	uri  string
	path string
	// title is the document's own at first, made unique by assign.
	title    string
	headings []string
	// candidates are what the summary is chosen from, best first, and summaryLimit
	// how many of them; filled by nominate.
	candidates   []sentence
	summaryLimit int
	// summary are sentences of the document, word for word, in its order.
	summary []string
	// lead is the best of them without markup, on one line; empty when there are
	// none.
	lead string
	// about describes a document without a lead.
	about string
	// terms are the most frequent terms, by count and key.
	terms []term

	// page is the path of the document's page; filled by assign.
	page string
	// keyTerms are what tells the document from others; filled by relate, as are
	// the vector and the neighbours.
	keyTerms   []string
	vector     []weight
	neighbours []neighbour
}

// block is a stretch of prose.
type block struct {
	// raw is the source's own bytes.
	raw string
	// plain is its text without markup.
	plain string
}

// prose is what a format's reader finds in a document.
type prose struct {
	title    string
	headings []string
	blocks   []block
}

// dataFormats are the files that hold no prose, with what to call them.
var dataFormats = map[string]string{
	".json": "JSON", ".jsonl": "JSON", ".yaml": "YAML", ".yml": "YAML", ".toml": "TOML", ".csv": "CSV", ".tsv": "TSV",
	".xml": "XML", ".html": "HTML", ".htm": "HTML", ".svg": "SVG", ".css": "CSS", ".sql": "SQL", ".ini": "INI",
	".go": "Go", ".py": "Python", ".js": "JavaScript", ".ts": "TypeScript", ".java": "Java", ".c": "C", ".h": "C",
	".cc": "C++", ".cpp": "C++", ".hpp": "C++", ".rs": "Rust", ".rb": "Ruby", ".sh": "shell", ".proto": "Protocol Buffers",
}

func readDocument(words *stemmer, file compile.File, content []byte, whole bool) *document {
	text := strings.TrimPrefix(string(content), "\ufeff")
	d := &document{uri: file.URI, path: file.Path}
	extension := strings.ToLower(path.Ext(file.Path))
	var p prose
	data, isData := dataFormats[extension]
	switch {
	case isData:
		p.blocks = []block{{plain: text}}
	case isMarkdown(extension):
		p = readMarkdown(text)
	default:
		p = readPlain(text)
	}
	d.title = cleanLine(p.title, maxTitle)
	if d.title == "" {
		d.title = titleOfPath(file.Path)
	}
	d.headings = cleanHeadings(p.headings, d.title)
	d.terms = countTerms(words, d.title, p)
	if !isData {
		d.nominate(words, p.blocks)
	}
	d.about = describeText(text, data, whole)
	return d
}

func isMarkdown(extension string) bool {
	switch extension {
	case ".md", ".markdown", ".mdown", ".mkd", ".mdx":
		return true
	}
	return false
}

// describeText says what there is to say of a document of which nothing can be
// quoted.
func describeText(text, data string, whole bool) string {
	lines := strings.Count(text, "\n")
	if !strings.HasSuffix(text, "\n") && text != "" {
		lines++
	}
	size := fmt.Sprintf("%d lines and %d bytes", lines, len(text))
	if !whole {
		size = "more than " + size
	}
	switch {
	case strings.TrimSpace(text) == "":
		return "An empty document."
	case data != "":
		return fmt.Sprintf("A %s file of %s.", data, size)
	default:
		return fmt.Sprintf("A text of %s without a sentence that could be quoted.", size)
	}
}

func cleanHeadings(headings []string, title string) []string {
	var clean []string
	seen := map[string]bool{strings.ToLower(title): true}
	for _, heading := range headings {
		heading = cleanLine(heading, maxTitle)
		if key := strings.ToLower(heading); heading != "" && !seen[key] && len(clean) < maxHeadings {
			seen[key] = true
			clean = append(clean, heading)
		}
	}
	return clean
}

// titleOfPath makes a title of a file's name.
func titleOfPath(file string) string {
	name := path.Base(file)
	name = strings.TrimSuffix(name, path.Ext(name))
	name = strings.NewReplacer("-", " ", "_", " ").Replace(name)
	name = cleanLine(name, maxTitle)
	if name == "" {
		return "Untitled"
	}
	return upperFirst(name)
}

// Package okf reads and writes pages of the wiki format: Markdown whose YAML front
// matter declares a type, a title and a one-line description (compile-api.md,
// F.10).
package okf

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// Version is the version of the format that results name (F.4).
const Version = "0.1"

// MaxFrontBytes bounds a front matter, delimiters not counted.
const MaxFrontBytes = 16 << 10

// The fields every page has.
const (
	FieldType        = "type"
	FieldTitle       = "title"
	FieldDescription = "description"
)

var (
	errUnterminated = errors.New("front matter has no closing ---")
	errNotMapping   = errors.New("front matter is not a YAML mapping")
)

// Split separates content into the YAML between its leading "---" lines and the
// rest. found is false when content does not begin with such a line; a front
// matter that is not closed within MaxFrontBytes is an error. A byte order mark is
// skipped, and lines may end with CR LF.
func Split(content []byte) (front, body []byte, found bool, err error) {
	rest := bytes.TrimPrefix(content, []byte("\ufeff"))
	line, rest, more := bytes.Cut(rest, []byte("\n"))
	if !isFence(line) {
		return nil, content, false, nil
	}
	start := rest
	for size := 0; more && size <= MaxFrontBytes; {
		line, rest, more = bytes.Cut(rest, []byte("\n"))
		if isFence(line) {
			return start[:size], rest, true, nil
		}
		size += len(line) + 1
	}
	return nil, nil, true, errUnterminated
}

func isFence(line []byte) bool { return string(bytes.TrimRight(line, " \t\r")) == "---" }

// Mapping parses a front matter. Every key occurs once.
func Mapping(front []byte) (*yaml.Node, error) {
	var document yaml.Node
	if err := yaml.Unmarshal(front, &document); err != nil {
		return nil, fmt.Errorf("front matter is no valid YAML: %w", err)
	}
	if len(document.Content) != 1 || document.Content[0].Kind != yaml.MappingNode {
		return nil, errNotMapping
	}
	// Decoding finds what parsing does not: keys that repeat, aliases that grow.
	var fields map[string]any
	if err := document.Decode(&fields); err != nil {
		return nil, fmt.Errorf("front matter is no valid YAML: %w", err)
	}
	return document.Content[0], nil
}

// Page is the front matter of a page.
type Page struct {
	Type        string
	Title       string
	Description string
	fields      *yaml.Node
}

// Parse reads the front matter of a .md file, of which head is the beginning or
// all. It returns nil for a file that is no page because its front matter
// declares no type, and an error for one that declares a type and breaks a rule of
// F.10.
func Parse(head []byte) (*Page, error) {
	front, _, found, err := Split(head)
	if !found {
		return nil, nil
	}
	if err != nil {
		return nil, unlessTypeless(head[:min(len(head), MaxFrontBytes)], err)
	}
	fields, err := Mapping(front)
	if err != nil {
		return nil, unlessTypeless(front, err)
	}
	if lookup(fields, FieldType) == nil {
		return nil, nil
	}
	if !utf8.Valid(front) {
		return nil, errors.New("page is not UTF-8")
	}
	page := &Page{fields: fields}
	for name, into := range map[string]*string{
		FieldType: &page.Type, FieldTitle: &page.Title, FieldDescription: &page.Description,
	} {
		value, ok := page.String(name)
		if !ok || strings.TrimSpace(value) == "" {
			return nil, fmt.Errorf("page needs a non-empty string %q", name)
		}
		*into = value
	}
	if strings.ContainsAny(page.Description, "\n\r\u0085\u2028\u2029") {
		return nil, errors.New("page needs a description of one line")
	}
	return page, nil
}

// unlessTypeless returns err when a broken front matter tried to declare a type;
// without one the file is an ordinary file that may hold anything.
func unlessTypeless(front []byte, err error) error {
	for line := range bytes.Lines(front) {
		name, _, ok := bytes.Cut(line, []byte(":"))
		if ok && string(bytes.Trim(name, " \"'")) == FieldType {
			return err
		}
	}
	return nil
}

// String returns a field that is a string.
func (p *Page) String(name string) (string, bool) {
	node := lookup(p.fields, name)
	if node == nil || node.Kind != yaml.ScalarNode || node.ShortTag() != "!!str" {
		return "", false
	}
	return node.Value, true
}

// Field is a front matter field with a string value.
type Field struct {
	Name  string
	Value string
}

// Render writes a page: the fields in order, then the fields of old that are not
// among them, then body. old may be nil.
func Render(fields []Field, old *Page, body string) ([]byte, error) {
	mapping := &yaml.Node{Kind: yaml.MappingNode}
	for _, field := range fields {
		mapping.Content = append(mapping.Content, stringNode(field.Name), stringNode(field.Value))
	}
	if old != nil {
		for i := 0; i+1 < len(old.fields.Content); i += 2 {
			key, value := old.fields.Content[i], old.fields.Content[i+1]
			if lookup(mapping, key.Value) == nil && !hasAlias(value) {
				mapping.Content = append(mapping.Content, key, value)
			}
		}
	}
	var out bytes.Buffer
	out.WriteString("---\n")
	encoder := yaml.NewEncoder(&out)
	encoder.SetIndent(2)
	if err := errors.Join(encoder.Encode(mapping), encoder.Close()); err != nil {
		return nil, fmt.Errorf("encode front matter: %w", err)
	}
	out.WriteString("---\n\n")
	out.WriteString(body)
	return out.Bytes(), nil
}

func stringNode(value string) *yaml.Node {
	node := &yaml.Node{}
	node.SetString(value)
	if node.Style == yaml.LiteralStyle {
		node.Style = yaml.DoubleQuotedStyle
	}
	return node
}

// hasAlias reports whether a value refers to, or is referred to by, another one;
// it would not stand on its own.
func hasAlias(node *yaml.Node) bool {
	if node.Kind == yaml.AliasNode || node.Anchor != "" {
		return true
	}
	for _, child := range node.Content {
		if hasAlias(child) {
			return true
		}
	}
	return false
}

func lookup(mapping *yaml.Node, name string) *yaml.Node {
	for i := 0; i+1 < len(mapping.Content); i += 2 {
		if mapping.Content[i].Value == name {
			return mapping.Content[i+1]
		}
	}
	return nil
}

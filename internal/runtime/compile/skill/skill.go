// Package skill reads Skills: a SKILL.md with YAML front matter, and instructions
// as its body (compile-api.md, F.8).
package skill

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"

	"github.com/agentruntime/operator/internal/runtime/compile/okf"
)

// maxTools bounds the tools and tags a Skill may list, and its requirements.
const maxTools = 256

var (
	namePattern        = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)
	requirementPattern = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_.-]*$`)
)

// Skill is a parsed SKILL.md.
type Skill struct {
	Name         string
	Description  string
	AllowedTools []string
	Tags         []string
	// Kind is metadata.compile.kind: what the Skill makes, in a word that a
	// compiler without a model can act on. Empty when the Skill does not say.
	Kind string
	// Requires is what the Skill needs beyond file tools.
	Requires Requirements
	// Body is the text below the front matter.
	Body string
}

// Requirements are the commands and environment variables that a Skill declares
// under a "requires" key anywhere in its metadata.
type Requirements struct {
	Bins []string
	Env  []string
}

// InvalidError says why a SKILL.md cannot be used; the code is SKILL_INVALID.
type InvalidError struct{ Reason string }

// Error implements the error interface.
func (e *InvalidError) Error() string { return "SKILL.md: " + e.Reason }

// UnavailableError says what a Skill needs that this executor does not have; the
// code is SKILL_CAPABILITY_UNAVAILABLE.
type UnavailableError struct{ Reason string }

// Error implements the error interface.
func (e *UnavailableError) Error() string { return e.Reason }

func invalid(format string, args ...any) error {
	return &InvalidError{Reason: fmt.Sprintf(format, args...)}
}

type header struct {
	Name         string    `yaml:"name"`
	Description  string    `yaml:"description"`
	AllowedTools yaml.Node `yaml:"allowed-tools"`
	Tags         yaml.Node `yaml:"tags"`
	Metadata     yaml.Node `yaml:"metadata"`
}

// Parse reads a SKILL.md. Errors are *InvalidError.
func Parse(content []byte) (*Skill, error) {
	if !utf8.Valid(content) {
		return nil, invalid("is not UTF-8")
	}
	front, body, found, err := okf.Split(content)
	if err != nil {
		return nil, invalid("%v", err)
	}
	if !found {
		return nil, invalid("needs a YAML front matter")
	}
	if _, err := okf.Mapping(front); err != nil {
		return nil, invalid("%v", err)
	}
	var h header
	if err := yaml.Unmarshal(front, &h); err != nil {
		return nil, invalid("front matter: %v", err)
	}
	return h.skill(string(body))
}

func (h *header) skill(body string) (*Skill, error) {
	if !namePattern.MatchString(h.Name) {
		return nil, invalid("needs a name of 1 to 64 letters, digits, _ or -")
	}
	description := strings.TrimSpace(h.Description)
	if description == "" {
		return nil, invalid("needs a description")
	}
	tools, err := toolList(&h.AllowedTools)
	if err != nil {
		return nil, err
	}
	tags, err := stringList("tags", &h.Tags)
	if err != nil {
		return nil, err
	}
	s := &Skill{Name: h.Name, Description: description, AllowedTools: tools, Tags: tags, Body: strings.TrimSpace(body)}
	if err := s.readMetadata(&h.Metadata); err != nil {
		return nil, err
	}
	return s, nil
}

// Available returns an *UnavailableError when the Skill needs what an executor
// without command execution cannot give (F.8).
func (s *Skill) Available() error {
	needs := slices.Concat(s.Requires.Bins, s.Requires.Env)
	if len(needs) == 0 {
		return nil
	}
	slices.Sort(needs)
	return &UnavailableError{Reason: fmt.Sprintf("Skill %s requires %s, and this executor runs no commands",
		s.Name, strings.Join(slices.Compact(needs), ", "))}
}

// toolList reads allowed-tools: an array of strings, or one string with spaces or
// commas between the tools. A tool may have an argument in parentheses, which
// protects both.
func toolList(node *yaml.Node) ([]string, error) {
	if node.Kind != yaml.ScalarNode {
		return stringList("allowed-tools", node)
	}
	var text string
	if err := node.Decode(&text); err != nil {
		return nil, invalid("allowed-tools must be a string or a list of strings")
	}
	var tools []string
	depth, start := 0, 0
	flush := func(end int) {
		if tool := strings.TrimSpace(text[start:end]); tool != "" {
			tools = append(tools, tool)
		}
		start = end + 1
	}
	for i, r := range text {
		switch {
		case r == '(':
			depth++
		case r == ')':
			depth--
		case depth == 0 && (r == ',' || r == ' ' || r == '\t' || r == '\n'):
			flush(i)
		}
		if depth < 0 {
			break
		}
	}
	if depth != 0 {
		return nil, invalid("allowed-tools has unbalanced parentheses")
	}
	flush(len(text))
	if len(tools) > maxTools {
		return nil, invalid("allowed-tools lists more than %d tools", maxTools)
	}
	return tools, nil
}

func stringList(field string, node *yaml.Node) ([]string, error) {
	if node.IsZero() || node.ShortTag() == "!!null" {
		return nil, nil
	}
	var items []string
	if node.Kind != yaml.SequenceNode || node.Decode(&items) != nil {
		return nil, invalid("%s must be a list of strings", field)
	}
	if len(items) > maxTools {
		return nil, invalid("%s lists more than %d items", field, maxTools)
	}
	return items, nil
}

// readMetadata fills Kind and Requires. Decoding to plain values first resolves
// aliases, within the YAML library's bound on their growth.
func (s *Skill) readMetadata(node *yaml.Node) error {
	if node.IsZero() || node.ShortTag() == "!!null" {
		return nil
	}
	var metadata map[string]any
	if err := node.Decode(&metadata); err != nil {
		return invalid("metadata must be a mapping")
	}
	if compile, ok := metadata["compile"].(map[string]any); ok {
		s.Kind, _ = compile["kind"].(string)
	}
	err := findRequires(metadata, func(requires map[string]any) error {
		bins, binsErr := requirement("bins", requires["bins"])
		env, envErr := requirement("env", requires["env"])
		s.Requires.Bins = append(s.Requires.Bins, bins...)
		s.Requires.Env = append(s.Requires.Env, env...)
		return errors.Join(binsErr, envErr)
	})
	if err != nil {
		return invalid("%v", err)
	}
	slices.Sort(s.Requires.Bins)
	slices.Sort(s.Requires.Env)
	return nil
}

func findRequires(value any, visit func(map[string]any) error) error {
	fields, ok := value.(map[string]any)
	if !ok {
		return nil
	}
	for name, child := range fields {
		if name != "requires" {
			if err := findRequires(child, visit); err != nil {
				return err
			}
			continue
		}
		requires, ok := child.(map[string]any)
		if !ok {
			return errors.New("requires must be a mapping")
		}
		if err := visit(requires); err != nil {
			return err
		}
	}
	return nil
}

func requirement(field string, value any) ([]string, error) {
	if value == nil {
		return nil, nil
	}
	items, ok := value.([]any)
	if !ok || len(items) > maxTools {
		return nil, fmt.Errorf("requires.%s must be a list of at most %d names", field, maxTools)
	}
	names := make([]string, 0, len(items))
	for _, item := range items {
		name, ok := item.(string)
		if !ok || !requirementPattern.MatchString(name) {
			return nil, fmt.Errorf("requires.%s holds a name that is not valid", field)
		}
		names = append(names, name)
	}
	return names, nil
}

package docs

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/agentruntime/operator/api/v1alpha1"
)

func TestRelativeLinksResolve(t *testing.T) {
	guides := readGuides(t)
	byPath := map[string]guide{}
	for _, g := range guides {
		byPath[g.path] = g
	}
	for _, g := range guides {
		for _, link := range g.links {
			if strings.Contains(link, "://") {
				continue
			}
			file, fragment, _ := strings.Cut(link, "#")
			target := g.path
			if file != "" {
				target = filepath.Join(filepath.Dir(g.path), file)
			}
			if _, err := os.Stat(filepath.Join(root, target)); err != nil {
				t.Errorf("%s links to %s, which does not exist", g.path, link)
				continue
			}
			if page, known := byPath[target]; known && fragment != "" && !page.headings[fragment] {
				t.Errorf("%s links to %s, and %s has no such heading", g.path, link, target)
			}
		}
	}
}

// TestManifestsDecode decodes strictly: an unknown or misspelt field fails.
func TestManifestsDecode(t *testing.T) {
	found := 0
	for _, g := range readGuides(t) {
		for _, b := range g.blocks {
			if b.language != "yaml" {
				continue
			}
			for _, document := range strings.Split(b.text, "\n---\n") {
				if decodeOurs(t, g.path, document) {
					found++
				}
			}
		}
	}
	if found == 0 {
		t.Error("the guides show no manifest of ours: the test looks at the wrong place")
	}
}

func decodeOurs(t *testing.T, path, document string) bool {
	t.Helper()
	var meta struct {
		APIVersion string `json:"apiVersion"`
		Kind       string `json:"kind"`
	}
	if err := yaml.Unmarshal([]byte(document), &meta); err != nil {
		t.Errorf("%s: a yaml block is no YAML: %v", path, err)
		return false
	}
	if !strings.HasPrefix(meta.APIVersion, v1alpha1.GroupVersion.Group+"/") {
		return false
	}
	kinds := map[string]any{
		"CompileTask": &v1alpha1.CompileTask{}, "AgentRuntime": &v1alpha1.AgentRuntime{}, "Payload": &v1alpha1.Payload{},
	}
	object, known := kinds[meta.Kind]
	if !known || meta.APIVersion != v1alpha1.GroupVersion.String() {
		t.Errorf("%s shows %s %s, which does not exist", path, meta.APIVersion, meta.Kind)
		return false
	}
	if err := yaml.UnmarshalStrict([]byte(document), object); err != nil {
		t.Errorf("%s shows a %s that does not decode: %v", path, meta.Kind, err)
	}
	return true
}

var (
	makeTarget   = regexp.MustCompile(`(?m)^([a-z][a-z0-9-]*):`)
	makeVariable = regexp.MustCompile(`(?m)^(?:export )?([A-Z][A-Z0-9_]*) *[?:]?=`)
	targetWord   = regexp.MustCompile(`^[a-z][a-z0-9-]*$`)
)

func TestMakeTargetsExist(t *testing.T) {
	makefile := read(t, "Makefile")
	targets, variables := firstGroups(makeTarget, makefile), firstGroups(makeVariable, makefile)
	for _, g := range readGuides(t) {
		for _, c := range g.commands() {
			if c.program != "make" {
				continue
			}
			for _, word := range c.arguments {
				name, _, assigned := strings.Cut(word, "=")
				if assigned && !slices.Contains(variables, name) {
					t.Errorf("%s sets %s, which the Makefile does not know", g.path, name)
				}
				if !assigned && targetWord.MatchString(word) && !slices.Contains(targets, word) {
					t.Errorf("%s names make %s, and there is no such target", g.path, word)
				}
			}
		}
	}
}

var longFlag = regexp.MustCompile(`--([a-z][a-z0-9-]*)`)

// TestFlagsExist holds the flags that guides name against the programs' own help:
// those of a call of a program against that program's, those that stand alone
// against all.
func TestFlagsExist(t *testing.T) {
	flags := map[string][]string{}
	var either []string
	for _, program := range []string{"manager", "facade", "runtime", "arctl"} {
		flags[program] = helpFlags(t, program)
		either = append(either, flags[program]...)
	}
	for _, g := range readGuides(t) {
		for _, c := range g.commands() {
			known, ours := flags[c.program]
			text := strings.Join(c.arguments, " ")
			if strings.HasPrefix(c.program, "--") {
				known, ours, text = either, true, c.program+" "+text
			}
			if !ours {
				continue
			}
			for _, flag := range firstGroups(longFlag, text) {
				if !slices.Contains(known, flag) {
					t.Errorf("%s names --%s, which no program of ours knows", g.path, flag)
				}
			}
		}
	}
}

func helpFlags(t *testing.T, program string) []string {
	t.Helper()
	binary := filepath.Join(t.TempDir(), program)
	build := exec.CommandContext(t.Context(), "go", "build", "-o", binary, "./cmd/"+program)
	build.Dir = root
	// As `make build` does, so that its compiled packages are used.
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build %s: %v\n%s", program, err, out)
	}
	return commandFlags(t, binary)
}

var (
	helpFlag    = regexp.MustCompile(`(?m)^ +(?:-\w, )?--([a-z0-9-]+)`)
	helpCommand = regexp.MustCompile(`(?m)^  ([a-z]+) `)
)

// commandFlags are the flags in the help of a command and of the commands below it.
func commandFlags(t *testing.T, binary string, command ...string) []string {
	t.Helper()
	help, err := exec.CommandContext(t.Context(), binary, append(command, "--help")...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %v --help: %v\n%s", binary, command, err, help)
	}
	text, list, found := strings.Cut(string(help), "\nFlags:\n")
	if !found {
		t.Fatalf("%s %v --help lists no flags:\n%s", binary, command, help)
	}
	flags := firstGroups(helpFlag, list)
	if _, commands, found := strings.Cut(text, "\nAvailable Commands:\n"); found {
		for _, name := range firstGroups(helpCommand, commands) {
			flags = append(flags, commandFlags(t, binary, append(slices.Clone(command), name)...)...)
		}
	}
	return flags
}

// TestConstantsAreExplained wants every condition, reason and phase of the API in
// a guide.
func TestConstantsAreExplained(t *testing.T) {
	explained := map[string]bool{}
	for _, g := range readGuides(t) {
		for _, span := range g.spans {
			explained[span] = true
		}
	}
	constants := apiConstants(t)
	if len(constants) < 20 {
		t.Fatalf("found only %d constants in api/v1alpha1: the test looks at the wrong place", len(constants))
	}
	for name, value := range constants {
		if !explained[value] {
			t.Errorf("no guide explains %s, %q", name, value)
		}
	}
}

// apiConstants are the string constants of conditions, reasons and phases.
func apiConstants(t *testing.T) map[string]string {
	t.Helper()
	wanted := regexp.MustCompile(`^(Condition|Reason|CompileTask)[A-Z]`)
	constants := map[string]string{}
	files, err := filepath.Glob(filepath.Join(root, "api", "v1alpha1", "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range files {
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(node ast.Node) bool {
			spec, ok := node.(*ast.ValueSpec)
			if !ok || len(spec.Values) != len(spec.Names) {
				return true
			}
			for i, name := range spec.Names {
				literal, ok := spec.Values[i].(*ast.BasicLit)
				if !ok || literal.Kind != token.STRING || !wanted.MatchString(name.Name) {
					continue
				}
				if constants[name.Name], err = strconv.Unquote(literal.Value); err != nil {
					t.Fatal(err)
				}
			}
			return true
		})
	}
	return constants
}

var (
	objectName  = regexp.MustCompile(`^agentruntime-[a-z0-9-]+$`)
	namedInYAML = regexp.MustCompile(`(?m)(?:name|secretName|value): (agentruntime-[a-z0-9-]+)\s*$`)
	ownPath     = regexp.MustCompile(`^(api|cmd|config|controllers|hack|internal|test|webhook)/[\w./-]+$`)
)

// TestNamesExist looks up what guides name of the manifests and of the tree. The
// contributors' page is left out: it also has what is planned.
func TestNamesExist(t *testing.T) {
	names := manifestNames(t)
	for _, g := range readGuides(t) {
		if g.path == "CONTRIBUTING.md" {
			continue
		}
		for _, span := range g.spans {
			if objectName.MatchString(span) && !slices.Contains(names, span) {
				t.Errorf("%s names %s, and no manifest has an object of that name", g.path, span)
			}
			if !ownPath.MatchString(span) {
				continue
			}
			if _, err := os.Stat(filepath.Join(root, span)); err != nil {
				t.Errorf("%s names %s, which does not exist", g.path, span)
			}
		}
	}
}

func manifestNames(t *testing.T) []string {
	t.Helper()
	var names []string
	err := filepath.WalkDir(filepath.Join(root, "config"), func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || filepath.Ext(path) != ".yaml" {
			return err
		}
		data, err := os.ReadFile(path)
		names = append(names, firstGroups(namedInYAML, string(data))...)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

func read(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(root, path))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// firstGroups is the first group of every match.
func firstGroups(pattern *regexp.Regexp, text string) []string {
	var out []string
	for _, match := range pattern.FindAllStringSubmatch(text, -1) {
		out = append(out, match[1])
	}
	return out
}

// Package output writes what arctl prints: objects as JSON, YAML, names or tables,
// with each number's exact text, and server's texts without control characters.
package output

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/pflag"
)

// Format is how objects are printed: one of the constants, or "" for people.
type Format string

// The formats.
const (
	// Human is a table or a few lines.
	Human Format = ""
	// JSON is the object, indented.
	JSON Format = "json"
	// YAML is the object as YAML.
	YAML Format = "yaml"
	// Name is "kind/name", one a line.
	Name Format = "name"
	// Wide is a table with more columns.
	Wide Format = "wide"
)

// formatFlag is the value of -o.
type formatFlag struct {
	format  *Format
	allowed []Format
}

// AddFlag adds -o with the formats that a command has besides the human one.
func AddFlag(flags *pflag.FlagSet, format *Format, allowed ...Format) {
	value := &formatFlag{format: format, allowed: allowed}
	flags.VarP(value, "output", "o", "how to print: "+value.choice())
}

// String is the chosen format.
func (f *formatFlag) String() string { return string(*f.format) }

// Type names the value in the help.
func (f *formatFlag) Type() string { return "format" }

// Set chooses a format.
func (f *formatFlag) Set(text string) error {
	if !slices.Contains(f.allowed, Format(text)) {
		return fmt.Errorf("must be %s", f.choice())
	}
	*f.format = Format(text)
	return nil
}

func (f *formatFlag) choice() string {
	words := make([]string, 0, len(f.allowed))
	for _, format := range f.allowed {
		words = append(words, string(format))
	}
	return strings.Join(words, "|")
}

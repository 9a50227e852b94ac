package output

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"

	"go.yaml.in/yaml/v3"
)

// Object writes an object, given as JSON, as JSON or YAML. Order of keys and text
// of numbers stay as they are.
func Object(w io.Writer, format Format, object json.RawMessage) error {
	if format == YAML {
		return writeYAML(w, object)
	}
	var indented bytes.Buffer
	if err := json.Indent(&indented, object, "", "  "); err != nil {
		return fmt.Errorf("print the object: %w", err)
	}
	indented.WriteByte('\n')
	_, err := indented.WriteTo(w)
	return err
}

// Line writes an object as JSON on one line, or as one document of a YAML stream.
func Line(w io.Writer, format Format, object json.RawMessage) error {
	if format == YAML {
		if _, err := io.WriteString(w, "---\n"); err != nil {
			return err
		}
		return writeYAML(w, object)
	}
	var line bytes.Buffer
	if err := json.Compact(&line, object); err != nil {
		return fmt.Errorf("print the object: %w", err)
	}
	line.WriteByte('\n')
	_, err := line.WriteTo(w)
	return err
}

// Value writes a value of ours as JSON or YAML.
func Value(w io.Writer, format Format, value any) error {
	object, err := json.Marshal(value)
	if err != nil {
		return fmt.Errorf("print the object: %w", err)
	}
	return Object(w, format, object)
}

func writeYAML(w io.Writer, object json.RawMessage) error {
	// Reading it whole first bounds its depth.
	if !json.Valid(object) {
		return fmt.Errorf("print the object: it is no JSON")
	}
	decoder := json.NewDecoder(bytes.NewReader(object))
	decoder.UseNumber()
	node, err := nodeOf(decoder)
	if err != nil {
		return fmt.Errorf("print the object: %w", err)
	}
	encoder := yaml.NewEncoder(w)
	encoder.SetIndent(2)
	if err := encoder.Encode(node); err != nil {
		return fmt.Errorf("print the object: %w", err)
	}
	return encoder.Close()
}

// nodeOf reads the decoder's next value as a YAML node. Going through Go values
// instead would round numbers and sort keys.
func nodeOf(decoder *json.Decoder) (*yaml.Node, error) {
	token, err := decoder.Token()
	if err != nil {
		return nil, err
	}
	switch value := token.(type) {
	case json.Delim:
		return collectionOf(decoder, value)
	case string:
		// Encode knows which texts need quotes, for older readers too: yes, 1:30.
		node := &yaml.Node{}
		return node, node.Encode(value)
	case json.Number:
		return &yaml.Node{Kind: yaml.ScalarNode, Value: value.String()}, nil
	case bool:
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!bool", Value: fmt.Sprint(value)}, nil
	}
	return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!null", Value: "null"}, nil
}

// collectionOf reads up to the end of the array or object that open began. A key
// is a value like any other here.
func collectionOf(decoder *json.Decoder, open json.Delim) (*yaml.Node, error) {
	node := &yaml.Node{Kind: yaml.MappingNode}
	if open == '[' {
		node.Kind = yaml.SequenceNode
	}
	for decoder.More() {
		child, err := nodeOf(decoder)
		if err != nil {
			return nil, err
		}
		node.Content = append(node.Content, child)
	}
	if len(node.Content) == 0 {
		node.Style = yaml.FlowStyle
	}
	_, err := decoder.Token()
	return node, err
}

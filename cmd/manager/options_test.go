package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

func TestOptionsValidate(t *testing.T) {
	cases := map[string]struct {
		arguments []string
		want      []string
	}{
		"the defaults are valid":        {},
		"a namespace must be a label":   {arguments: []string{"--namespace=Not_A_Label"}, want: []string{"--namespace"}},
		"a port must be a port":         {arguments: []string{"--webhook-port=70000"}, want: []string{"--webhook-port"}},
		"a wait has bounds":             {arguments: []string{"--first-poll-wait=-1s"}, want: []string{"--first-poll-wait"}},
		"every wrong flag is named":     {arguments: []string{"--log-level=loud", "--log-format=xml"}, want: []string{"--log-level", "--log-format"}},
		"log level and format are used": {arguments: []string{"--log-level=debug", "--log-format=console"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			o := &options{}
			flags := pflag.NewFlagSet("manager", pflag.ContinueOnError)
			o.addFlags(flags)
			if err := flags.Parse(tc.arguments); err != nil {
				t.Fatalf("parse: %v", err)
			}
			err := o.validate()
			if (err != nil) != (len(tc.want) > 0) {
				t.Fatalf("validate = %v, want faults with %v", err, tc.want)
			}
			for _, want := range tc.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("validate = %q, which does not name %s", err, want)
				}
			}
		})
	}
}

func TestCommand(t *testing.T) {
	t.Run("help tells every flag and its default", func(t *testing.T) {
		command := newCommand()
		var out bytes.Buffer
		command.SetOut(&out)
		command.SetArgs([]string{"--help"})
		if err := command.ExecuteContext(t.Context()); err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{"--leader-elect", "(default true)", "--webhook-cert-rotation", "--first-poll-wait"} {
			if !strings.Contains(out.String(), want) {
				t.Errorf("help lacks %q", want)
			}
		}
	})
	t.Run("a flag that can't be used ends it before it looks for a cluster", func(t *testing.T) {
		command := newCommand()
		command.SetArgs([]string{"--log-format=xml", "--kubeconfig=/nonexistent"})
		err := command.ExecuteContext(t.Context())
		if err == nil || !strings.Contains(err.Error(), "--log-format") {
			t.Errorf("got %v, want a fault of --log-format", err)
		}
	})
	t.Run("a missing kubeconfig is said", func(t *testing.T) {
		command := newCommand()
		command.SetArgs([]string{"--kubeconfig=/nonexistent"})
		err := command.ExecuteContext(t.Context())
		if err == nil || !strings.Contains(err.Error(), "find the cluster") {
			t.Errorf("got %v, want that the cluster is not found", err)
		}
	})
	t.Run("arguments are refused", func(t *testing.T) {
		command := newCommand()
		command.SetArgs([]string{"start"})
		if err := command.ExecuteContext(t.Context()); err == nil {
			t.Error("an argument was taken")
		}
	})
}

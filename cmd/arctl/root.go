package main

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/agentruntime/operator/internal/cli/connect"
	"github.com/agentruntime/operator/internal/cli/exit"
	"github.com/agentruntime/operator/internal/cli/output"
	"github.com/agentruntime/operator/internal/cli/taskapi"
	"github.com/agentruntime/operator/internal/cli/tasks"
)

const longHelp = `Creates and follows compile tasks, hands out API keys, and shows executors.

Connection. Without --server the API server of the kubeconfig is asked, where the
API is served as compile.agentruntime.dev/v1. With --server, or ARCTL_SERVER, a
facade is asked directly, with the API key or Kubernetes token of --api-key-file,
ARCTL_API_KEY or --api-key. The apikey and runtime commands need a kubeconfig.

Exit codes.
  0    done; where a task was waited for, it ended as wanted
  1    the server could not be reached, or failed
  2    the command line is wrong, or the server refuses the request as it stands
  3    the server does not know you, or does not let you
  4    there is no such thing, as far as you may know
  10   the task failed
  11   the task was cancelled
  12   --timeout ended the wait; the task goes on
  130  the wait was interrupted; the task goes on`

// program is what the commands need of the process that they run in.
type program struct {
	// name is how the user calls the program.
	name    string
	version string
	in      io.Reader
	out     io.Writer
	err     io.Writer
	// screen is err, for progress.
	screen tasks.Screen
	env    connect.Environment
	pace   tasks.Pace
}

// app is a program while a command runs.
type app struct {
	program
	options connect.Options
	// parsed tells that the command line was understood, so that an error is none of
	// usage.
	parsed bool
	// again is the program with the connection's flags as they were given, for
	// commands that a hint tells the user to run.
	again string
}

// run runs a command line and returns its exit code. It prints the error, if there
// is one, on one line.
func run(ctx context.Context, p program, arguments []string) int {
	a := &app{program: p}
	root := a.root() //nolint:contextcheck // the commands get ctx from ExecuteContext
	root.SetArgs(arguments)
	root.SetIn(p.in)
	root.SetOut(p.out)
	root.SetErr(p.err)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return exit.OK
	}
	if !a.parsed {
		err = exit.Usagef("%w; see %s --help", err, p.name)
	}
	fmt.Fprintf(p.err, "%s: %s\n", p.name, output.Plain(a.explain(err)))
	return exit.Code(err)
}

func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		// Cobra takes the first word for the program's name.
		Use:           strings.ReplaceAll(a.name, " ", "-"),
		Annotations:   map[string]string{cobra.CommandDisplayNameAnnotation: a.name},
		Short:         "Work with compile tasks",
		Long:          longHelp,
		SilenceUsage:  true,
		SilenceErrors: true,
		PersistentPreRunE: func(command *cobra.Command, _ []string) error {
			a.parsed, a.again = true, a.name+connection(command.Flags())
			return a.options.Complete(a.env)
		},
	}
	group(root)
	a.options.AddFlags(root.PersistentFlags())
	root.AddCommand(a.compile(), a.task(), a.apikey(), a.runtime(), a.versions())
	return root
}

// connection is the flags that say where to go, as they were given, but for a key.
func connection(flags *pflag.FlagSet) string {
	text := ""
	flags.Visit(func(flag *pflag.Flag) {
		switch flag.Name {
		case "kubeconfig", "context", "namespace", "server", "api-key-file", "certificate-authority", "insecure-skip-tls-verify":
			text += " --" + flag.Name + "=" + quoted(flag.Value.String())
		}
	})
	return text
}

// quoted is a word as a shell takes it.
func quoted(word string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_./:@%+,", r)
	}
	if word != "" && strings.IndexFunc(word, func(r rune) bool { return !plain(r) }) < 0 {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// group makes a command one that only has others: what else follows it is a
// mistake.
func group(command *cobra.Command) *cobra.Command {
	command.Args = cobra.NoArgs
	command.RunE = func(command *cobra.Command, _ []string) error { return command.Help() }
	return command
}

func (a *app) connector() *connect.Connector {
	return &connect.Connector{Options: a.options, UserAgent: "arctl/" + a.version, Warn: a.warn}
}

func (a *app) warn(text string) { a.hint("warning: " + text) }

// hint tells the user something beside a command's output.
func (a *app) hint(text string) { fmt.Fprintln(a.err, output.Plain(text)) }

// explain is the error's text, and what to do about it where that is known.
func (a *app) explain(err error) string {
	text := err.Error()
	refused, ok := errors.AsType[*taskapi.Error](err)
	if !ok {
		if unreachable, ok := errors.AsType[*taskapi.UnreachableError](err); ok && !errors.Is(err, context.Canceled) {
			text += "; check that " + unreachable.Server + " is the right address and is up"
			if _, untrusted := errors.AsType[x509.UnknownAuthorityError](err); untrusted {
				text = err.Error() + "; name the file with the server's authority by --certificate-authority"
			}
		}
		return text
	}
	if advice := advise(refused, a.options.Server != ""); advice != "" {
		text += "; " + advice
	}
	return text
}

// advise says what to do about a refusal that says so little by itself.
func advise(refused *taskapi.Error, direct bool) string {
	switch {
	case refused.Kubernetes && refused.Status == 404:
		return "the cluster does not serve compile.agentruntime.dev/v1: name a facade with --server, or have the aggregated API installed"
	case refused.RetryAfter > 0:
		return fmt.Sprintf("try again in %s", refused.RetryAfter)
	case refused.Code == taskapi.CodeUnauthenticated && direct:
		return "give a valid key with --api-key-file or ARCTL_API_KEY"
	case refused.Code == taskapi.CodeUnauthenticated:
		return "check the kubeconfig's credentials"
	case refused.Code == taskapi.CodePermissionDenied:
		return "ask for the role agentruntime-user in the namespace"
	case refused.Code == taskapi.CodeUnavailable:
		return "try again later"
	}
	return ""
}

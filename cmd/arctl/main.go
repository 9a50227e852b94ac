// Command arctl is the command line of the Compile and Tasks API, and of the API
// keys and executors behind it. On the PATH as kubectl-agentruntime it is
// `kubectl agentruntime`.
package main

import (
	"context"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/term"

	"github.com/agentruntime/operator/internal/cli/connect"
	"github.com/agentruntime/operator/internal/cli/tasks"
)

// version is set when the binary is built.
var version = "dev"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	// A second signal ends the process at once.
	context.AfterFunc(ctx, stop)
	code := run(ctx, program{
		name: displayName(os.Args[0]), version: version,
		in: os.Stdin, out: os.Stdout, err: os.Stderr, screen: screenOf(os.Stderr),
		env:  connect.Environment{Server: os.Getenv("ARCTL_SERVER"), APIKey: os.Getenv("ARCTL_API_KEY")},
		pace: tasks.DefaultPace(),
	}, os.Args[1:])
	stop()
	os.Exit(code)
}

// displayName is how the user calls a program that was started as arg0: a plugin of
// kubectl is not called by its file's name.
func displayName(arg0 string) string {
	name := strings.TrimSuffix(filepath.Base(arg0), ".exe")
	if plugin, ok := strings.CutPrefix(name, "kubectl-"); ok {
		return "kubectl " + strings.ReplaceAll(plugin, "_", "-")
	}
	return "arctl"
}

func screenOf(file *os.File) tasks.Screen {
	fd := int(file.Fd())
	if !term.IsTerminal(fd) {
		return tasks.Screen{W: file}
	}
	width, _, err := term.GetSize(fd)
	if err != nil {
		width = 0
	}
	return tasks.Screen{W: file, Terminal: true, Width: width}
}

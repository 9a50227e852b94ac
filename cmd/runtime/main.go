// Command runtime is the built-in executor: it answers the Runtime execution
// protocol and compiles from and into a content store on local disk.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
)

const longHelp = `Runs the built-in executor.

It serves the Runtime execution protocol (POST /runtime/v1/tasks, /status and
/cancel) and keeps its sessions under --data-dir, so that a restart answers for
what was begun before it. /healthz and /readyz are open to anyone.

Who may call. Callers show the gateway token of --gateway-token-file in
X-Gateway-Token. Without that flag only a listener on a loopback address serves
anyone, and then only callers on loopback; there, no token is needed.

Who the user is. X-OpenViking-Account and X-OpenViking-User are believed from a
caller that showed the gateway token. Otherwise X-API-Key, or a bearer token,
tells users apart: by TokenReview with --authenticate-tokens, else by the key's
hash, so that every key is a user of its own. The account is then the
ServiceAccount's namespace, or --default-account.

Signals. SIGTERM and SIGINT stop the executor: held polls are answered, queued
and running tasks end as BOT_RESTARTED. SIGHUP reads the gateway token and the
TLS certificate again, which also happens by itself when the files change.`

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	// A second signal ends the process at once.
	context.AfterFunc(ctx, stop)
	err := newCommand().ExecuteContext(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "runtime:", err)
		os.Exit(1)
	}
}

func newCommand() *cobra.Command {
	opts := defaultOptions()
	cmd := &cobra.Command{
		Use:           "runtime",
		Short:         "Run the built-in executor",
		Long:          longHelp,
		Args:          cobra.NoArgs,
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return run(cmd.Context(), opts, program{logTo: cmd.ErrOrStderr()})
		},
	}
	opts.addFlags(cmd.Flags())
	return cmd
}

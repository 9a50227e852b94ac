package main

import (
	"context"
	"fmt"
	"runtime"
	"time"

	"github.com/spf13/cobra"

	"github.com/agentruntime/operator/internal/cli/output"
	"github.com/agentruntime/operator/internal/cli/taskapi"
)

// versionTimeout bounds the question for the server's version.
const versionTimeout = 5 * time.Second

// versions is what version prints.
type versions struct {
	Client   string `json:"client"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
	// Server is there when the server could be asked.
	Server *taskapi.ServerVersion `json:"server,omitempty"`
}

func (a *app) versions() *cobra.Command {
	var format output.Format
	var clientOnly bool
	command := &cobra.Command{
		Use: "version", Short: "Show this program's version, and the server's when it can be reached", Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			found := versions{Client: a.version, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
			var problem error
			if !clientOnly {
				found.Server, problem = a.serverVersion(command.Context())
			}
			if format != output.Human {
				return output.Value(a.out, format, found)
			}
			fmt.Fprintf(a.out, "Client: %s (%s, %s)\n", found.Client, found.Go, found.Platform)
			if found.Server != nil {
				fmt.Fprintf(a.out, "Server: %s\n", output.Plain(found.Server.String()))
			} else if problem != nil {
				a.hint("the server can't be asked: " + problem.Error())
			}
			return nil
		},
	}
	command.Flags().BoolVar(&clientOnly, "client", false, "ask no server")
	output.AddFlag(command.Flags(), &format, output.JSON, output.YAML)
	return command
}

func (a *app) serverVersion(ctx context.Context) (*taskapi.ServerVersion, error) {
	ctx, cancel := context.WithTimeout(ctx, versionTimeout)
	defer cancel()
	client, err := a.connector().Tasks()
	if err != nil {
		return nil, err
	}
	return client.Version(ctx)
}

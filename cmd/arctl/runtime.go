package main

import (
	"time"

	"github.com/spf13/cobra"

	"github.com/agentruntime/operator/internal/cli/output"
	"github.com/agentruntime/operator/internal/cli/runtimes"
)

func (a *app) runtime() *cobra.Command {
	command := group(&cobra.Command{Use: "runtime", Aliases: []string{"runtimes"}, Short: "Show the cluster's executors"})
	var format output.Format
	list := &cobra.Command{
		Use: "list", Aliases: []string{"ls"}, Short: "List AgentRuntimes", Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			if a.options.Server != "" {
				return errNeedsKubeconfig("runtime")
			}
			config, client, err := a.connector().Kubernetes()
			if err != nil {
				return err
			}
			found, err := runtimes.List(command.Context(), config, client)
			if err != nil {
				return err
			}
			return runtimes.Print(a.out, format, found, time.Now())
		},
	}
	output.AddFlag(list.Flags(), &format, taskFormats...)
	command.AddCommand(list)
	return command
}

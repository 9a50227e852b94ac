package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/agentruntime/operator/internal/cli/exit"
	"github.com/agentruntime/operator/internal/cli/output"
	"github.com/agentruntime/operator/internal/cli/taskapi"
	"github.com/agentruntime/operator/internal/cli/tasks"
)

const (
	defaultList = 50
	maxList     = 10000
)

func (a *app) task() *cobra.Command {
	command := group(&cobra.Command{Use: "task", Aliases: []string{"tasks"}, Short: "List, read, follow and cancel tasks"})
	command.AddCommand(a.taskList(), a.taskGet(), a.taskStatus(), a.taskCancel(), a.taskWatch())
	return command
}

func (a *app) taskList() *cobra.Command {
	want := taskapi.List{Limit: defaultList}
	var format output.Format
	command := &cobra.Command{
		Use: "list", Aliases: []string{"ls"}, Short: "List your tasks, the newest first", Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error { return a.runList(command.Context(), want, format) },
	}
	flags := command.Flags()
	flags.StringVar(&want.Status, "status", "", "only tasks in this state: "+strings.Join(taskapi.Statuses(), ", "))
	flags.IntVar(&want.Limit, "limit", want.Limit, fmt.Sprintf("how many at most, up to %d", maxList))
	flags.BoolVar(&want.Namespace, "all-in-namespace", false, "everyone's tasks in the namespace; needs get on compiletasks/any")
	output.AddFlag(flags, &format, taskFormats...)
	return command
}

func (a *app) runList(ctx context.Context, want taskapi.List, format output.Format) error {
	if want.Limit < 1 || want.Limit > maxList {
		return exit.Usagef("--limit must be between 1 and %d", maxList)
	}
	if want.Status != "" && !slices.Contains(taskapi.Statuses(), want.Status) {
		return exit.Usagef("--status must be one of %s", strings.Join(taskapi.Statuses(), ", "))
	}
	client, err := a.connector().Tasks()
	if err != nil {
		return err
	}
	found, err := client.List(ctx, want)
	if err != nil {
		return fmt.Errorf("list tasks: %w", err)
	}
	if len(found) == 0 && (format == output.Human || format == output.Wide) {
		a.hint("there are no such tasks")
		return nil
	}
	if err := tasks.PrintList(a.out, format, found, time.Now()); err != nil {
		return err
	}
	if len(found) == want.Limit && want.Limit < maxList {
		a.hint(fmt.Sprintf("these are the newest %d; there may be more: --limit", want.Limit))
	}
	return nil
}

// onTask makes a command that does something with one task.
func (a *app) onTask(use, short string, do func(context.Context, *taskapi.Client, string) error) *cobra.Command {
	return &cobra.Command{
		Use: use + " ID", Short: short, Args: cobra.ExactArgs(1),
		RunE: func(command *cobra.Command, arguments []string) error {
			id, err := tasks.ID(arguments[0])
			if err != nil {
				return exit.With(exit.Usage, err)
			}
			client, err := a.connector().Tasks()
			if err != nil {
				return err
			}
			return do(command.Context(), client, id)
		},
	}
}

func (a *app) taskGet() *cobra.Command {
	var format output.Format
	command := a.onTask("get", "Show a task; -o json has its result", func(ctx context.Context, client *taskapi.Client, id string) error {
		task, err := client.Get(ctx, id)
		if err != nil {
			return fmt.Errorf("get task %s: %w", id, err)
		}
		return tasks.Print(a.out, format, task, time.Now())
	})
	output.AddFlag(command.Flags(), &format, taskFormats...)
	return command
}

func (a *app) taskStatus() *cobra.Command {
	var format output.Format
	command := a.onTask("status", "Describe how a task stands", func(ctx context.Context, client *taskapi.Client, id string) error {
		task, err := client.Get(ctx, id)
		if err != nil {
			return fmt.Errorf("get task %s: %w", id, err)
		}
		if format == output.Human {
			return tasks.Describe(a.out, task, time.Now())
		}
		return tasks.Print(a.out, format, task, time.Now())
	})
	output.AddFlag(command.Flags(), &format, taskFormats...)
	return command
}

func (a *app) taskCancel() *cobra.Command {
	var format output.Format
	var wait bool
	var timeout time.Duration
	command := a.onTask("cancel", "Cancel a task; what it wrote already stays", func(ctx context.Context, client *taskapi.Client, id string) error {
		task, err := client.Cancel(ctx, id)
		if err != nil {
			return fmt.Errorf("cancel task %s: %w", id, err)
		}
		if wait {
			return a.wait(ctx, client, task, timeout, format, tasks.CancelOutcome)
		}
		return tasks.Print(a.out, format, task, time.Now())
	})
	command.Flags().BoolVar(&wait, "wait", false, "wait until the task has ended; the exit code is 0 when it was cancelled")
	command.Flags().DurationVar(&timeout, "timeout", 0, "with --wait: how long to wait; 0 means until the end")
	output.AddFlag(command.Flags(), &format, taskFormats...)
	return command
}

func (a *app) taskWatch() *cobra.Command {
	var format output.Format
	var timeout time.Duration
	command := a.onTask("watch", "Print each change of a task until it has ended", func(ctx context.Context, client *taskapi.Client, id string) error {
		ctx, cancel := tasks.WithTimeout(ctx, timeout)
		defer cancel()
		watcher := tasks.Watcher{API: client, Pace: a.pace, Out: a.out, Err: a.err, Format: format, Program: a.again}
		task, err := watcher.Watch(ctx, id)
		if err != nil {
			return err
		}
		return tasks.Outcome(task)
	})
	command.Long = `Prints each change of a task, a line each, until it has ended. The exit code tells
how. A stream that is cut goes on where it was. With -o json each record is one
line; with -o yaml it is one document.`
	command.Flags().DurationVar(&timeout, "timeout", 0, "how long to watch; 0 means until the end")
	output.AddFlag(command.Flags(), &format, taskFormats...)
	return command
}

package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/agentruntime/operator/internal/cli/output"
	"github.com/agentruntime/operator/internal/cli/taskapi"
	"github.com/agentruntime/operator/internal/cli/tasks"
)

// taskFormats are the formats of commands that print tasks.
var taskFormats = []output.Format{output.JSON, output.YAML, output.Name, output.Wide}

type compileOptions struct {
	request tasks.Request
	format  output.Format
	wait    bool
	timeout time.Duration
}

func (a *app) compile() *cobra.Command {
	var o compileOptions
	command := &cobra.Command{
		Use:   "compile --from URI --to URI --skill URI",
		Short: "Create a compile task",
		Long: `Creates a compile task, prints its id on standard output and returns.

With --wait it stays until the task has ended and shows on standard error how it
goes on; the exit code tells how it ended. With -o the record is printed instead of
the id: as it was created, or as it ended with --wait. Ctrl-C ends the wait, not the
task.`,
		Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error { return a.runCompile(command.Context(), o) },
	}
	flags := command.Flags()
	flags.StringArrayVar(&o.request.From, "from", nil, "source directory; may be repeated, or hold several with commas between")
	flags.StringVar(&o.request.To, "to", "", "target directory")
	flags.StringVar(&o.request.Skill, "skill", "", "directory of the skill, or its SKILL.md")
	flags.StringVar(&o.request.Instruction, "instruction", "", "what to do, when the skill's own words are not enough")
	flags.StringVar(&o.request.Args, "args", "", "arguments for the executor, a JSON object")
	flags.StringVar(&o.request.IdempotencyKey, "idempotency-key", "", "a repeat with the same key answers with the same task")
	flags.BoolVar(&o.wait, "wait", false, "wait until the task has ended")
	flags.DurationVar(&o.timeout, "timeout", 0, "with --wait: how long to wait; 0 means until the end")
	output.AddFlag(flags, &o.format, taskFormats...)
	return command
}

func (a *app) runCompile(ctx context.Context, o compileOptions) error {
	body, err := o.request.Compile()
	if err != nil {
		return err
	}
	client, err := a.connector().Tasks()
	if err != nil {
		return err
	}
	task, err := client.Create(ctx, body, o.request.IdempotencyKey)
	if err != nil {
		return explainCreate(err, o.request.IdempotencyKey)
	}
	if o.format == output.Human {
		fmt.Fprintln(a.out, output.Plain(task.ID))
	}
	if o.wait {
		return a.wait(ctx, client, task, o.timeout, o.format, tasks.Outcome)
	}
	if o.format != output.Human {
		return tasks.Print(a.out, o.format, task, time.Now())
	}
	a.hint(fmt.Sprintf("follow it with: %s task watch %s", a.again, task.ID))
	return nil
}

// explainCreate says what an unanswered create leaves open.
func explainCreate(err error, key string) error {
	if _, lost := errors.AsType[*taskapi.UnreachableError](err); !lost {
		return fmt.Errorf("create the task: %w", err)
	}
	if key != "" {
		return fmt.Errorf("create the task: %w; repeating it with the same --idempotency-key is safe", err)
	}
	return fmt.Errorf("create the task: %w; it may exist all the same: look with task list", err)
}

// wait waits for a task, prints it if a format asks for that, and returns how it
// ended.
func (a *app) wait(ctx context.Context, client *taskapi.Client, task *taskapi.Task, timeout time.Duration,
	format output.Format, outcome func(*taskapi.Task) error,
) error {
	ctx, cancel := tasks.WithTimeout(ctx, timeout)
	defer cancel()
	waiter := tasks.Waiter{API: client, Pace: a.pace, Screen: a.screen, Program: a.again}
	task, err := waiter.Wait(ctx, task)
	if err != nil {
		return err
	}
	if format != output.Human {
		if err := tasks.Print(a.out, format, task, time.Now()); err != nil {
			return err
		}
	}
	return outcome(task)
}

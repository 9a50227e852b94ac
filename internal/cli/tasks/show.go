package tasks

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/agentruntime/operator/internal/cli/output"
	"github.com/agentruntime/operator/internal/cli/taskapi"
)

// Name is what -o name prints of a task. Commands take it for an id, too.
func Name(task *taskapi.Task) string { return namePrefix + output.Plain(task.ID) }

const namePrefix = "task/"

// ID is the id in an argument, which may be what -o name prints.
func ID(argument string) (string, error) {
	id := strings.TrimPrefix(argument, namePrefix)
	return id, taskapi.CheckID(id)
}

// Print writes one task.
func Print(w io.Writer, format output.Format, task *taskapi.Task, now time.Time) error {
	if format == output.Human || format == output.Wide {
		return table(w, format, []taskapi.Task{*task}, now)
	}
	return printOne(w, format, task, output.Object)
}

func printOne(w io.Writer, format output.Format, task *taskapi.Task,
	object func(io.Writer, output.Format, json.RawMessage) error,
) error {
	if format == output.Name {
		_, err := fmt.Fprintln(w, Name(task))
		return err
	}
	return object(w, format, task.Raw)
}

// PrintList writes tasks: as one array in JSON and YAML.
func PrintList(w io.Writer, format output.Format, tasks []taskapi.Task, now time.Time) error {
	switch format {
	case output.Name:
		for i := range tasks {
			if _, err := fmt.Fprintln(w, Name(&tasks[i])); err != nil {
				return err
			}
		}
		return nil
	case output.JSON, output.YAML:
		return output.Object(w, format, array(tasks))
	default:
		return table(w, format, tasks, now)
	}
}

// array puts the records' exact texts into one array.
func array(tasks []taskapi.Task) json.RawMessage {
	records := make([][]byte, len(tasks))
	for i := range tasks {
		records[i] = tasks[i].Raw
	}
	return slices.Concat([]byte("["), bytes.Join(records, []byte(",")), []byte("]"))
}

func table(w io.Writer, format output.Format, tasks []taskapi.Task, now time.Time) error {
	header := []string{"TASK", "STATUS", "STAGE", "TO", "AGE"}
	if format == output.Wide {
		header = append(header, "SKILL", "FROM", "ERROR")
	}
	rows := make([][]string, 0, len(tasks))
	for i := range tasks {
		task := &tasks[i]
		row := []string{task.ID, task.Status, task.Stage, task.Request.To, output.Age(now, task.CreatedAt)}
		if format == output.Wide {
			row = append(row, task.Request.Skill, task.ResourceID, task.Error)
		}
		rows = append(rows, row)
	}
	return output.Table(w, header, rows)
}

// Describe writes all that people want to know of one task, a line each.
func Describe(w io.Writer, task *taskapi.Task, now time.Time) error {
	lines := [][2]string{
		{"Task", task.ID}, {"Status", task.Status}, {"Stage", task.Stage},
		{"From", sources(task)}, {"To", task.Request.To}, {"Skill", task.Request.Skill},
		{"Instruction", task.Request.Instruction},
		{"Created", moment(task.CreatedAt, now)}, {"Updated", moment(task.UpdatedAt, now)},
		{"Error", task.Error},
	}
	for _, line := range lines {
		if line[1] == "" {
			continue
		}
		if _, err := fmt.Fprintf(w, "%-13s%s\n", line[0]+":", output.Plain(line[1])); err != nil {
			return err
		}
	}
	return nil
}

func sources(task *taskapi.Task) string {
	if len(task.Request.From) > 0 {
		return strings.Join(task.Request.From, ", ")
	}
	return task.ResourceID
}

func moment(at, now time.Time) string {
	if at.IsZero() {
		return ""
	}
	return fmt.Sprintf("%s (%s ago)", at.UTC().Format(time.RFC3339), output.Age(now, at))
}

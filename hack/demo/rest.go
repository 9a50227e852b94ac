package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// overREST takes the same compile through arctl, with an API key through curl, and
// through kubectl and the API server's aggregator.
func (d *demo) overREST(ctx context.Context) error {
	heading("The same compile by arctl, through the API server's aggregator")
	err := d.arctl(ctx, d.user.Kubeconfig, "--namespace", demoNamespace, "compile", "--wait",
		"--from", "viking://resources/docs", "--to", "viking://resources/wiki", "--skill", "viking://agent/skills/llm-wiki")
	if err != nil {
		return err
	}
	if err := d.arctl(ctx, d.user.Kubeconfig, "--namespace", demoNamespace, "task", "list"); err != nil {
		return err
	}
	heading("An API key for %s, made by an admin and shown once", demoUser)
	if err := d.makeKey(ctx); err != nil {
		return err
	}
	heading("The same compile by curl, with the API key")
	id, err := d.compileByCurl(ctx)
	if err != nil {
		return err
	}
	heading("That task through kubectl, by its id")
	return d.kubectl(ctx, "get", "--raw", "/apis/compile.agentruntime.dev/v1/namespaces/"+demoNamespace+"/tasks/"+id)
}

// makeKey has arctl make an API key, and hides it where it is printed.
func (d *demo) makeKey(ctx context.Context) error {
	var out bytes.Buffer
	arguments := []string{"apikey", "create", "--as-user", demoUser, "--namespace", demoNamespace, "--expires", "24h"}
	fmt.Printf("\n$ arctl %s\n", strings.Join(arguments, " "))
	if err := d.exec(ctx, d.Admin, io.MultiWriter(&out), d.Binary("arctl"), arguments...); err != nil {
		return err
	}
	for field := range strings.FieldsSeq(out.String()) {
		if strings.HasPrefix(field, "sk-ar-") {
			d.key = field
		}
	}
	if d.key == "" {
		return errors.New("arctl printed no API key")
	}
	fmt.Println(d.key[:12] + "… (kept for the next calls)")
	return os.WriteFile(d.keyFile(), []byte("X-API-Key: "+d.key+"\n"), 0o600)
}

// keyFile holds the header with the key, so that it is on no command line.
func (d *demo) keyFile() string { return filepath.Join(d.Dir, "api-key.header") }

// compileByCurl creates a task, waits for its end, and returns its id.
func (d *demo) compileByCurl(ctx context.Context) (string, error) {
	request := `{"from":["viking://resources/docs"],"to":"viking://resources/wiki","skill":"viking://agent/skills/llm-wiki"}`
	created, err := d.curl(ctx, "-H", "Content-Type: application/json", "-d", request, d.FacadeURL()+"/api/v1/compile")
	if err != nil {
		return "", err
	}
	id, _, err := readRecord(created)
	if err != nil {
		return "", err
	}
	for {
		answer, err := d.curl(ctx, d.FacadeURL()+"/api/v1/tasks/"+id+"?wait=30s")
		if err != nil {
			return "", err
		}
		_, status, err := readRecord(answer)
		switch {
		case err != nil:
			return "", err
		case status == "completed":
			return id, nil
		case status == "failed" || status == "cancelled":
			return "", fmt.Errorf("the task by curl ended as %s", status)
		}
	}
}

func readRecord(answer []byte) (id, status string, err error) {
	var body struct {
		Result struct {
			TaskID string `json:"task_id"`
			Status string `json:"status"`
		} `json:"result"`
	}
	if err := json.Unmarshal(answer, &body); err != nil {
		return "", "", fmt.Errorf("read the answer of the REST API: %w", err)
	}
	if body.Result.TaskID == "" {
		return "", "", errors.New("the REST API's answer holds no task")
	}
	return body.Result.TaskID, body.Result.Status, nil
}

// curl calls the facade with the API key, shows what is said, and returns it.
func (d *demo) curl(ctx context.Context, arguments ...string) ([]byte, error) {
	var out bytes.Buffer
	fmt.Printf("\n$ curl -H @api-key.header %s\n", quoted(arguments))
	arguments = append([]string{"--silent", "--show-error", "--fail-with-body", "--cacert", d.authority, "-H", "@" + d.keyFile()}, arguments...)
	err := d.exec(ctx, "", io.MultiWriter(&out, os.Stdout), "curl", arguments...)
	fmt.Println()
	return out.Bytes(), err
}

func (d *demo) arctl(ctx context.Context, kubeconfig string, arguments ...string) error {
	return d.show(ctx, kubeconfig, d.Binary("arctl"), arguments...)
}

// show prints a command and runs it.
func (d *demo) show(ctx context.Context, kubeconfig, program string, arguments ...string) error {
	fmt.Printf("\n$ %s %s\n", filepath.Base(program), quoted(arguments))
	return d.exec(ctx, kubeconfig, os.Stdout, program, arguments...)
}

func (d *demo) exec(ctx context.Context, kubeconfig string, out io.Writer, program string, arguments ...string) error {
	command := exec.CommandContext(ctx, program, arguments...)
	command.Stdout, command.Stderr = out, os.Stderr
	command.Env = append(os.Environ(), "KUBECONFIG="+kubeconfig)
	if err := command.Run(); err != nil {
		return fmt.Errorf("%s %s: %w", filepath.Base(program), arguments[0], err)
	}
	return nil
}

// quoted shows arguments as one would type them.
func quoted(arguments []string) string {
	shown := make([]string, len(arguments))
	for i, argument := range arguments {
		shown[i] = argument
		if strings.ContainsAny(argument, " {}?\"") {
			shown[i] = "'" + argument + "'"
		}
	}
	return strings.Join(shown, " ")
}

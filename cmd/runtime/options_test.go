package main

import (
	"bytes"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"github.com/agentruntime/operator/internal/runtime/server"
)

func TestDefaultsAreValid(t *testing.T) {
	opts := defaultOptions()
	if err := opts.Validate(); err != nil {
		t.Error(err)
	}
	if opts.ListenAddress != "127.0.0.1:1944" || opts.Limits != server.DefaultLimits() {
		t.Errorf("defaults %+v", opts)
	}
	if opts.sessionDir() != "data/sessions" || opts.contentDir() != "data/content" {
		t.Errorf("directories %s and %s", opts.sessionDir(), opts.contentDir())
	}
	if opts.ContentDir = "elsewhere"; opts.contentDir() != "elsewhere" {
		t.Errorf("content directory %s", opts.contentDir())
	}
}

func TestValidateNamesTheFlag(t *testing.T) {
	for want, change := range map[string]func(*Options){
		"--listen-address":                      func(o *Options) { o.ListenAddress = "" },
		"--metrics-address":                     func(o *Options) { o.MetricsAddress = "nonsense" },
		"--data-dir":                            func(o *Options) { o.DataDir = "" },
		"--tls-cert-file":                       func(o *Options) { o.TLSCertFile = "x" },
		"--token-audience needs":                func(o *Options) { o.TokenAudience = "x" },
		"--kubeconfig needs":                    func(o *Options) { o.Kubeconfig = "x" },
		"--default-account":                     func(o *Options) { o.DefaultAccount = "A:b" },
		"--shutdown-timeout":                    func(o *Options) { o.ShutdownTimeout = 0 },
		"--session-retention":                   func(o *Options) { o.SessionRetention = 0 },
		"--max-finished-sessions":               func(o *Options) { o.MaxSessions = 0 },
		"--key-retention must be at least 192h": func(o *Options) { o.KeyRetention = time.Hour },
		"must not be below":                     func(o *Options) { o.SessionRetention = 1000 * time.Hour },
		"must outlast a task":                   func(o *Options) { o.Limits.RunTime = 1000 * time.Hour },
		"--allow-model-name":                    func(o *Options) { o.AllowModelNames = []string{""} },
		"running tasks":                         func(o *Options) { o.Limits.Running = 0 },
		"--log-level":                           func(o *Options) { o.LogLevel = "loud" },
		"--log-format":                          func(o *Options) { o.LogFormat = "xml" },
	} {
		t.Run(want, func(t *testing.T) {
			opts := defaultOptions()
			change(opts)
			if err := opts.Validate(); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("Validate = %v", err)
			}
			if err := run(t.Context(), opts, program{logTo: io.Discard}); err == nil {
				t.Error("run goes on")
			}
		})
	}
}

func TestHelpTellsEveryFlag(t *testing.T) {
	cmd := newCommand()
	var out bytes.Buffer
	cmd.SetOut(&out)
	cmd.SetArgs([]string{"--help"})
	if err := cmd.Execute(); err != nil {
		t.Fatal(err)
	}
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if f.Usage == "" || !strings.Contains(out.String(), "--"+f.Name) {
			t.Errorf("--%s is not explained", f.Name)
		}
	})
	for _, want := range []string{"SIGHUP", "X-Gateway-Token", "BOT_RESTARTED"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("help does not mention %s", want)
		}
	}
}

func TestUnknownArgumentsAreRefused(t *testing.T) {
	for _, args := range [][]string{{"--no-such-flag"}, {"something"}, {"--max-running=x"}} {
		cmd := newCommand()
		cmd.SetArgs(args)
		cmd.SetOut(io.Discard)
		cmd.SetErr(io.Discard)
		if err := cmd.Execute(); err == nil {
			t.Errorf("%v is accepted", args)
		}
	}
}

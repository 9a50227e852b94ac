package main

import (
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"time"

	"github.com/spf13/pflag"

	"github.com/agentruntime/operator/internal/runtime/server"
	"github.com/agentruntime/operator/internal/runtime/session"
)

// Options are the flags of the command.
type Options struct {
	ListenAddress   string
	MetricsAddress  string
	DataDir         string
	ContentDir      string
	ShutdownTimeout time.Duration
	LogLevel        string
	LogFormat       string

	TLSCertFile string
	TLSKeyFile  string

	GatewayTokenFile     string
	TrustIdentityHeaders bool
	AuthenticateTokens   bool
	TokenAudience        string
	Kubeconfig           string
	DefaultAccount       string
	AllowModelNames      []string

	Limits           server.Limits
	SessionRetention time.Duration
	MaxSessions      int
	KeyRetention     time.Duration
}

func defaultOptions() *Options {
	return &Options{
		ListenAddress:    "127.0.0.1:1944",
		DataDir:          "data",
		ShutdownTimeout:  50 * time.Second,
		LogLevel:         "info",
		LogFormat:        "json",
		DefaultAccount:   "default",
		Limits:           server.DefaultLimits(),
		SessionRetention: session.DefaultRecordRetention,
		MaxSessions:      session.DefaultMaxFinished,
		KeyRetention:     session.MinKeyRetention,
	}
}

func (o *Options) addFlags(f *pflag.FlagSet) {
	f.SortFlags = false
	f.StringVar(&o.ListenAddress, "listen-address", o.ListenAddress, "Address of the protocol, as host:port.")
	f.StringVar(&o.MetricsAddress, "metrics-address", o.MetricsAddress,
		"Address of Prometheus metrics at /metrics, as host:port, without authentication: keep it on loopback or behind a network policy. Empty serves none.")
	f.StringVar(&o.DataDir, "data-dir", o.DataDir, "Directory of everything that is kept. Sessions are in its sub-directory sessions.")
	f.StringVar(&o.ContentDir, "content-dir", o.ContentDir, "Directory of the content store, one sub-directory an account. Empty means content under --data-dir.")
	o.addAccessFlags(f)
	o.addLimitFlags(f)
	f.DurationVar(&o.ShutdownTimeout, "shutdown-timeout", o.ShutdownTimeout,
		"How long a stop may take before running tasks are given up on. Give the Pod a longer grace period.")
	f.StringVar(&o.LogLevel, "log-level", o.LogLevel, "Least level that is logged: debug, info, warn or error.")
	f.StringVar(&o.LogFormat, "log-format", o.LogFormat, "Form of the log: json or text.")
}

func (o *Options) addAccessFlags(f *pflag.FlagSet) {
	f.StringVar(&o.TLSCertFile, "tls-cert-file", o.TLSCertFile, "PEM file of the server's certificate chain. Empty serves plain HTTP.")
	f.StringVar(&o.TLSKeyFile, "tls-key-file", o.TLSKeyFile, "PEM file of the certificate's private key.")
	f.StringVar(&o.GatewayTokenFile, "gateway-token-file", o.GatewayTokenFile,
		"File of the gateway token, one a line; any of several is good, so that they can be rotated.")
	f.BoolVar(&o.TrustIdentityHeaders, "trust-identity-headers", o.TrustIdentityHeaders,
		"Believe X-OpenViking-Account and -User from loopback callers too, which need no gateway token. Anyone on this machine can then be anyone.")
	f.BoolVar(&o.AuthenticateTokens, "authenticate-tokens", o.AuthenticateTokens,
		"Take credentials for Kubernetes tokens and have the API server review them.")
	f.StringVar(&o.TokenAudience, "token-audience", o.TokenAudience,
		"Audience that a token must be for. Empty means the API server's own.")
	f.StringVar(&o.Kubeconfig, "kubeconfig", o.Kubeconfig,
		"Kubeconfig for token reviews. Empty means the configuration of the Pod.")
	f.StringVar(&o.DefaultAccount, "default-account", o.DefaultAccount, "Account of users who bring none.")
	f.StringArrayVar(&o.AllowModelNames, "allow-model-name", o.AllowModelNames,
		"A value that args.model_name may have; repeat for more. Other arguments are refused.")
}

func (o *Options) addLimitFlags(f *pflag.FlagSet) {
	l := &o.Limits
	f.IntVar(&l.Admitted, "max-admitted", l.Admitted, "Tasks queued and running at once, of all users.")
	f.IntVar(&l.AdmittedPerUser, "max-admitted-per-user", l.AdmittedPerUser, "Tasks queued and running at once, of one user.")
	f.IntVar(&l.Running, "max-running", l.Running, "Tasks running at once.")
	f.DurationVar(&l.QueueWait, "queue-timeout", l.QueueWait, "How long a task may wait before it fails.")
	f.DurationVar(&l.RunTime, "run-timeout", l.RunTime, "How long a task may run before it is stopped and fails.")
	f.DurationVar(&l.CleanupGrace, "cleanup-grace", l.CleanupGrace, "How long a task may take to stop.")
	f.IntVar(&l.HeldPolls, "max-held-polls", l.HeldPolls, "Status requests held at once; more are answered at once.")
	f.DurationVar(&o.SessionRetention, "session-retention", o.SessionRetention, "How long a finished session can be read.")
	f.IntVar(&o.MaxSessions, "max-finished-sessions", o.MaxSessions, "How many finished sessions can be read, the newest.")
	f.DurationVar(&o.KeyRetention, "key-retention", o.KeyRetention,
		"How long an Idempotency-Key leads to its session, even when that is gone; at least 192h.")
}

// Validate names every flag that is wrong.
func (o *Options) Validate() error {
	var errs []error
	fault := func(wrong bool, format string, args ...any) {
		if wrong {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	for flag, address := range map[string]string{"listen-address": o.ListenAddress, "metrics-address": o.MetricsAddress} {
		_, _, err := net.SplitHostPort(address)
		fault(err != nil && (address != "" || flag == "listen-address"), "--%s must be host:port", flag)
	}
	fault(o.DataDir == "", "--data-dir is required")
	fault((o.TLSCertFile == "") != (o.TLSKeyFile == ""), "--tls-cert-file and --tls-key-file go together")
	fault(o.TokenAudience != "" && !o.AuthenticateTokens, "--token-audience needs --authenticate-tokens")
	fault(o.Kubeconfig != "" && !o.AuthenticateTokens, "--kubeconfig needs --authenticate-tokens")
	fault(!server.ValidAccount(o.DefaultAccount), "--default-account must be a DNS label of at most 63 characters")
	fault(o.ShutdownTimeout <= 0, "--shutdown-timeout must be above zero")
	fault(o.SessionRetention <= 0, "--session-retention must be above zero")
	fault(o.MaxSessions < 1, "--max-finished-sessions must be at least 1")
	fault(o.KeyRetention < session.MinKeyRetention, "--key-retention must be at least %s", session.MinKeyRetention)
	fault(o.KeyRetention < o.SessionRetention, "--key-retention must not be below --session-retention")
	fault(o.KeyRetention < o.Limits.QueueWait+o.Limits.RunTime, "--key-retention must outlast a task")
	for _, name := range o.AllowModelNames {
		fault(name == "", "--allow-model-name must not be empty")
	}
	if err := o.Limits.Validate(); err != nil {
		errs = append(errs, err)
	}
	_, err := o.logHandler(nil)
	return errors.Join(append(errs, err)...)
}

func (o *Options) sessionDir() string { return filepath.Join(o.DataDir, "sessions") }

func (o *Options) contentDir() string {
	if o.ContentDir != "" {
		return o.ContentDir
	}
	return filepath.Join(o.DataDir, "content")
}

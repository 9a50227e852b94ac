package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"sync/atomic"
	"time"
)

const (
	// watchEvery is how often files are looked at; a mounted Secret changes
	// without a sign that would be simpler to follow.
	watchEvery = 5 * time.Second
	// Bounds of a token file.
	maxTokenFile = 64 << 10
	maxTokens    = 16
)

// tokenFile is the gateway tokens of a file, as of the last good read.
type tokenFile struct {
	path   string
	tokens atomic.Pointer[[]string]
}

func openTokenFile(path string) (*tokenFile, error) {
	f := &tokenFile{path: path}
	return f, f.reload()
}

// current returns the tokens that are good now.
func (f *tokenFile) current() []string { return *f.tokens.Load() }

// reload reads the file again. When it can't be used, the tokens stay as they
// were: an empty file must not open the door, nor a slip close it.
func (f *tokenFile) reload() error {
	raw, err := readBounded(f.path, maxTokenFile)
	if err != nil {
		return fmt.Errorf("read gateway token file: %w", err)
	}
	var tokens []string
	for line := range strings.Lines(string(raw)) {
		if line = strings.TrimSpace(line); line != "" {
			tokens = append(tokens, line)
		}
	}
	if len(tokens) == 0 || len(tokens) > maxTokens {
		return fmt.Errorf("gateway token file must hold 1 to %d lines", maxTokens)
	}
	f.tokens.Store(&tokens)
	return nil
}

// certificateFile is a TLS key pair, as of the last good read.
type certificateFile struct {
	certPath, keyPath string
	pair              atomic.Pointer[tls.Certificate]
	certPEM, keyPEM   []byte // of pair; used by reload only
}

func openCertificate(certPath, keyPath string) (*certificateFile, error) {
	c := &certificateFile{certPath: certPath, keyPath: keyPath}
	return c, c.reload()
}

// get implements tls.Config.GetCertificate.
func (c *certificateFile) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	return c.pair.Load(), nil
}

// reload reads both files again. While they don't belong together, as in the
// middle of a renewal, the pair stays as it was.
func (c *certificateFile) reload() error {
	cert, err := readBounded(c.certPath, 1<<20)
	if err != nil {
		return fmt.Errorf("read TLS certificate: %w", err)
	}
	key, err := readBounded(c.keyPath, 1<<20)
	if err != nil {
		return fmt.Errorf("read TLS key: %w", err)
	}
	if bytes.Equal(cert, c.certPEM) && bytes.Equal(key, c.keyPEM) {
		return nil
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return fmt.Errorf("use TLS certificate: %w", err)
	}
	c.certPEM, c.keyPEM = cert, key
	c.pair.Store(&pair)
	return nil
}

func readBounded(path string, limit int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	raw, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(raw)) > limit {
		err = errors.New("file is too big")
	}
	return raw, err
}

// watcher reads files again, from time to time and when told to.
type watcher struct {
	log   *slog.Logger
	files []interface{ reload() error }
	now   <-chan os.Signal
}

// run ends with ctx. A fault is logged when it appears, not at every look.
func (w *watcher) run(ctx context.Context) {
	if len(w.files) == 0 {
		return
	}
	ticker := time.NewTicker(watchEvery)
	defer ticker.Stop()
	told := make([]string, len(w.files))
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		case <-w.now:
			w.log.Info("Reading files again")
			clear(told)
		}
		for i, f := range w.files {
			fault := ""
			if err := f.reload(); err != nil {
				fault = err.Error()
			}
			if fault != "" && fault != told[i] {
				w.log.Error("File can't be used; what was read before stays in use", "err", fault)
			}
			told[i] = fault
		}
	}
}

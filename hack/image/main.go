// Command image builds the operator's container image from binaries on disk,
// without Docker, a base image or a registry, and writes it as an archive that
// docker load, podman load and ctr images import read. The Dockerfile builds
// the same image where Docker is at hand.
//
// The archive depends on the binaries, the version and the certificate
// authorities only: the same input gives the same bytes.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintf(os.Stderr, "image: %v\n", err)
		os.Exit(1)
	}
}

// run builds the image that the arguments describe and reports on out.
func run(args []string, out io.Writer) error {
	flags := flag.NewFlagSet("image", flag.ContinueOnError)
	binaries := flags.String("binaries", "", "directory that holds the static Linux binaries and nothing else")
	output := flags.String("output", "", "archive to write")
	reference := flags.String("image", "agentruntime:dev", "name and tag of the image")
	version := flags.String("version", "dev", "version the labels name")
	arch := flags.String("arch", runtime.GOARCH, "architecture of the binaries, as GOARCH names it")
	ca := flags.String("ca", "", "PEM file of certificate authorities; empty means this machine's, if it has any")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *binaries == "" || *output == "" {
		return errors.New("both -binaries and -output are needed")
	}
	tag, err := name.NewTag(*reference)
	if err != nil {
		return fmt.Errorf("parse the image's name: %w", err)
	}
	authorities := *ca
	if authorities == "" {
		authorities = systemAuthorities()
	}

	image, err := build(options{binaries: *binaries, authorities: authorities, version: *version, arch: *arch})
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(*output), 0o755); err != nil {
		return fmt.Errorf("create the archive's directory: %w", err)
	}
	if err := tarball.WriteToFile(*output, tag, image); err != nil {
		return fmt.Errorf("write the archive: %w", err)
	}
	digest, err := image.Digest()
	if err != nil {
		return fmt.Errorf("compute the image's digest: %w", err)
	}
	if authorities == "" {
		fmt.Fprintln(out, "this machine has no certificate authorities: the image trusts no public server")
	}
	fmt.Fprintf(out, "%s: %s (%s)\n", *output, tag, digest)
	return nil
}

// systemAuthorities returns where this machine keeps its certificate
// authorities as one PEM file, or "" when it has none.
func systemAuthorities() string {
	for _, path := range []string{
		"/etc/ssl/certs/ca-certificates.crt", // Debian, Alpine
		"/etc/pki/tls/certs/ca-bundle.crt",   // Fedora
		"/etc/ssl/ca-bundle.pem",             // SUSE
		"/etc/ssl/cert.pem",                  // macOS, BSD
	} {
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() {
			return path
		}
	}
	return ""
}

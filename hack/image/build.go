package main

import (
	"debug/elf"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
)

const (
	// user is the numeric user and group that the image's processes run as. It is
	// numeric so that runAsNonRoot can be checked without reading /etc/passwd.
	user = "65532:65532"
	// entrypoint is the binary that runs when a container names none.
	entrypoint = "/manager"
	// authoritiesPath is where Go's crypto/x509 looks first.
	authoritiesPath = "etc/ssl/certs/ca-certificates.crt"
	// maxAuthorities bounds the certificate authorities' file, in bytes.
	maxAuthorities = 8 << 20

	passwd = "root:x:0:0:root:/root:/sbin/nologin\nnonroot:x:65532:65532:nonroot:/tmp:/sbin/nologin\n"
	group  = "root:x:0:\nnonroot:x:65532:\n"
)

// epoch is the time of every file and of the image: a real one would make each
// build differ.
var epoch = time.Unix(0, 0).UTC()

// options says what goes into an image.
type options struct {
	binaries    string // directory of the binaries
	authorities string // PEM file; empty means none
	version     string
	arch        string
}

// build returns the image: a layer of base files and one of binaries.
func build(opts options) (v1.Image, error) {
	base, err := baseEntries(opts.authorities)
	if err != nil {
		return nil, err
	}
	binaries, err := binaryEntries(opts.binaries)
	if err != nil {
		return nil, err
	}

	image := empty.Image
	for _, part := range []struct {
		comment string
		entries []entry
	}{
		{"users, certificate authorities and /tmp", base},
		{"binaries", binaries},
	} {
		layer, err := newLayer(part.entries)
		if err != nil {
			return nil, fmt.Errorf("build the layer of %s: %w", part.comment, err)
		}
		image, err = mutate.Append(image, mutate.Addendum{
			Layer:   layer,
			History: v1.History{Created: v1.Time{Time: epoch}, CreatedBy: "hack/image", Comment: part.comment},
		})
		if err != nil {
			return nil, fmt.Errorf("append the layer of %s: %w", part.comment, err)
		}
	}
	return configure(image, opts, describe(binaries))
}

// describe names the binaries for people who read the image's label.
func describe(binaries []entry) string {
	names := make([]string, 0, len(binaries))
	for _, binary := range binaries {
		names = append(names, binary.path)
	}
	slices.Sort(names)
	last := len(names) - 1
	if last < 1 {
		return "Agent Runtime Operator: " + strings.Join(names, "")
	}
	return "Agent Runtime Operator: " + strings.Join(names[:last], ", ") + " and " + names[last]
}

// configure sets what the container runtime reads: user, entrypoint, labels.
func configure(image v1.Image, opts options, description string) (v1.Image, error) {
	file, err := image.ConfigFile()
	if err != nil {
		return nil, fmt.Errorf("read the image's configuration: %w", err)
	}
	file = file.DeepCopy()
	file.OS = "linux"
	file.Architecture = opts.arch
	file.Created = v1.Time{Time: epoch}
	file.Config = v1.Config{
		User:       user,
		Entrypoint: []string{entrypoint},
		WorkingDir: "/",
		Env:        []string{"PATH=/", "SSL_CERT_FILE=/" + authoritiesPath},
		Labels:     labels(opts.version, description),
	}
	image, err = mutate.ConfigFile(image, file)
	if err != nil {
		return nil, fmt.Errorf("configure the image: %w", err)
	}
	return image, nil
}

// labels are the image's labels under the OCI names; the Dockerfile sets the
// same ones.
func labels(version, description string) map[string]string {
	return map[string]string{
		"org.opencontainers.image.title":       "agentruntime",
		"org.opencontainers.image.description": description,
		"org.opencontainers.image.source":      "https://github.com/agentruntime/operator",
		"org.opencontainers.image.licenses":    "Apache-2.0",
		"org.opencontainers.image.version":     version,
	}
}

// baseEntries are the few files a static binary needs beside itself. The root
// file system is read-only in a cluster; /tmp is there to be mounted over.
func baseEntries(authorities string) ([]entry, error) {
	entries := []entry{
		{path: "etc/passwd", mode: 0o644, data: []byte(passwd)},
		{path: "etc/group", mode: 0o644, data: []byte(group)},
		{path: "tmp", mode: 0o1777, dir: true},
	}
	if authorities == "" {
		return entries, nil
	}
	info, err := os.Stat(authorities)
	if err != nil {
		return nil, fmt.Errorf("find the certificate authorities: %w", err)
	}
	if info.Size() > maxAuthorities {
		return nil, fmt.Errorf("the certificate authorities in %s are over %d bytes", authorities, maxAuthorities)
	}
	data, err := os.ReadFile(authorities)
	if err != nil {
		return nil, fmt.Errorf("read the certificate authorities: %w", err)
	}
	return append(entries, entry{path: authoritiesPath, mode: 0o644, data: data}), nil
}

// binaryEntries are the binaries of a directory, each at the image's root. Every
// file must be a static Linux binary: any other could not start in this image.
func binaryEntries(directory string) ([]entry, error) {
	files, err := os.ReadDir(directory)
	if err != nil {
		return nil, fmt.Errorf("list the binaries: %w", err)
	}
	entries := make([]entry, 0, len(files))
	for _, file := range files {
		path := filepath.Join(directory, file.Name())
		if err := checkStatic(path); err != nil {
			return nil, err
		}
		entries = append(entries, entry{path: file.Name(), mode: 0o755, file: path})
	}
	for _, e := range entries {
		if "/"+e.path == entrypoint {
			return entries, nil
		}
	}
	return nil, fmt.Errorf("no %s among the binaries of %s", entrypoint[1:], directory)
}

// checkStatic returns an error when a file is no Linux binary, or one that needs
// a dynamic loader.
func checkStatic(path string) error {
	binary, err := elf.Open(path)
	if err != nil {
		return fmt.Errorf("read %s as a Linux binary: %w", path, err)
	}
	defer binary.Close()
	for _, header := range binary.Progs {
		if header.Type == elf.PT_INTERP {
			return fmt.Errorf("%s is dynamically linked; build it with CGO_ENABLED=0", path)
		}
	}
	return nil
}

package main

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

const testAuthorities = "-----BEGIN CERTIFICATE-----\nnot a real one\n-----END CERTIFICATE-----\n"

// staticBinary compiles the smallest program there is, statically.
func staticBinary(t *testing.T) []byte {
	t.Helper()
	directory := t.TempDir()
	source := filepath.Join(directory, "main.go")
	if err := os.WriteFile(source, []byte("package main\n\nfunc main() {}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	binary := filepath.Join(directory, "binary")
	command := exec.CommandContext(t.Context(), "go", "build", "-o", binary, source)
	command.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOFLAGS=-trimpath -buildvcs=false")
	if output, err := command.CombinedOutput(); err != nil {
		t.Fatalf("build a static binary: %v\n%s", err, output)
	}
	content, err := os.ReadFile(binary)
	if err != nil {
		t.Fatal(err)
	}
	return content
}

// writeFiles writes files into a new directory, with modes as careless as a
// developer's umask makes them.
func writeFiles(t *testing.T, files map[string][]byte) string {
	t.Helper()
	directory := t.TempDir()
	for file, content := range files {
		if err := os.WriteFile(filepath.Join(directory, file), content, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	return directory
}

// readImage reads an archive back as a container runtime would.
func readImage(t *testing.T, archive, reference string) v1.Image {
	t.Helper()
	tag, err := name.NewTag(reference)
	if err != nil {
		t.Fatal(err)
	}
	image, err := tarball.ImageFromPath(archive, &tag)
	if err != nil {
		t.Fatalf("read the archive: %v", err)
	}
	return image
}

// file is what a test wants to know of a tar entry.
type file struct {
	Mode     int64
	UID, GID int
	Type     byte
	ModTime  int64
	Content  string
}

// readFiles returns the files of all layers; binaries' content is shortened to
// whether it is the wanted one.
func readFiles(t *testing.T, image v1.Image, binary []byte) map[string]file {
	t.Helper()
	layers, err := image.Layers()
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]file{}
	for _, layer := range layers {
		content, err := layer.Uncompressed()
		if err != nil {
			t.Fatal(err)
		}
		defer content.Close()
		archive := tar.NewReader(content)
		for {
			header, err := archive.Next()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			data, err := io.ReadAll(archive)
			if err != nil {
				t.Fatal(err)
			}
			if bytes.Equal(data, binary) {
				data = []byte("the binary")
			}
			files[header.Name] = file{
				Mode: header.Mode, UID: header.Uid, GID: header.Gid, Type: header.Typeflag,
				ModTime: header.ModTime.Unix(), Content: string(data),
			}
		}
	}
	return files
}

func TestArchiveReadsBackAsTheImage(t *testing.T) {
	binary := staticBinary(t)
	binaries := writeFiles(t, map[string][]byte{"runtime": binary, "manager": binary})
	ca := filepath.Join(writeFiles(t, map[string][]byte{"ca.pem": []byte(testAuthorities)}), "ca.pem")
	archive := filepath.Join(t.TempDir(), "below", "image.tar")

	var out strings.Builder
	err := run([]string{"-binaries", binaries, "-output", archive, "-image", "example.test/agentruntime:v1.2.3",
		"-version", "v1.2.3", "-arch", "arm64", "-ca", ca}, &out)
	if err != nil {
		t.Fatalf("run: %v", err)
	}
	if !strings.Contains(out.String(), "example.test/agentruntime:v1.2.3") {
		t.Errorf("the report does not name the image: %q", out.String())
	}

	image := readImage(t, archive, "example.test/agentruntime:v1.2.3")
	config, err := image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	wantConfig := v1.Config{
		User:       "65532:65532",
		Entrypoint: []string{"/manager"},
		WorkingDir: "/",
		Env:        []string{"PATH=/", "SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt"},
		Labels: map[string]string{
			"org.opencontainers.image.title":       "agentruntime",
			"org.opencontainers.image.description": "Agent Runtime Operator: manager and runtime",
			"org.opencontainers.image.source":      "https://github.com/agentruntime/operator",
			"org.opencontainers.image.licenses":    "Apache-2.0",
			"org.opencontainers.image.version":     "v1.2.3",
		},
	}
	if diff := cmp.Diff(wantConfig, config.Config); diff != "" {
		t.Errorf("configuration (-want +got):\n%s", diff)
	}
	if config.OS != "linux" || config.Architecture != "arm64" || !config.Created.Equal(time.Unix(0, 0)) {
		t.Errorf("got %s/%s of %s, want linux/arm64 of the epoch", config.OS, config.Architecture, config.Created)
	}

	directory := file{Mode: 0o755, Type: tar.TypeDir}
	wantFiles := map[string]file{
		"etc/":           directory,
		"etc/ssl/":       directory,
		"etc/ssl/certs/": directory,
		"etc/ssl/certs/ca-certificates.crt": {
			Mode: 0o644, Type: tar.TypeReg, Content: testAuthorities},
		"etc/passwd": {Mode: 0o644, Type: tar.TypeReg, Content: passwd},
		"etc/group":  {Mode: 0o644, Type: tar.TypeReg, Content: group},
		"tmp/":       {Mode: 0o1777, Type: tar.TypeDir},
		"manager":    {Mode: 0o755, Type: tar.TypeReg, Content: "the binary"},
		"runtime":    {Mode: 0o755, Type: tar.TypeReg, Content: "the binary"},
	}
	if diff := cmp.Diff(wantFiles, readFiles(t, image, binary)); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
}

func TestSameInputGivesTheSameBytes(t *testing.T) {
	binary := staticBinary(t)
	archives := make([][]byte, 2)
	for i := range archives {
		binaries := writeFiles(t, map[string][]byte{"manager": binary, "arctl": binary, "facade": binary})
		// A build of another day has other file times.
		then := time.Unix(int64(1_000_000_000*(i+1)), 0)
		if err := os.Chtimes(filepath.Join(binaries, "arctl"), then, then); err != nil {
			t.Fatal(err)
		}
		ca := filepath.Join(writeFiles(t, map[string][]byte{"ca.pem": []byte(testAuthorities)}), "ca.pem")
		archive := filepath.Join(t.TempDir(), "image.tar")
		if err := run([]string{"-binaries", binaries, "-output", archive, "-ca", ca}, io.Discard); err != nil {
			t.Fatalf("run: %v", err)
		}
		content, err := os.ReadFile(archive)
		if err != nil {
			t.Fatal(err)
		}
		archives[i] = content
	}
	if !bytes.Equal(archives[0], archives[1]) {
		t.Error("two builds of the same input differ")
	}
}

func TestRunRefuses(t *testing.T) {
	binary := staticBinary(t)
	good := writeFiles(t, map[string][]byte{"manager": binary})
	output := filepath.Join(t.TempDir(), "image.tar")
	tests := map[string]struct {
		args []string
		want string
	}{
		"a missing output": {
			args: []string{"-binaries", good},
			want: "-output",
		},
		"a name that is none": {
			args: []string{"-binaries", good, "-output", output, "-image", "Not A Name"},
			want: "parse the image's name",
		},
		"a directory that is not there": {
			args: []string{"-binaries", filepath.Join(good, "none"), "-output", output},
			want: "list the binaries",
		},
		"binaries without the manager": {
			args: []string{"-binaries", writeFiles(t, map[string][]byte{"arctl": binary}), "-output", output},
			want: "no manager among the binaries",
		},
		"a script": {
			args: []string{"-binaries", writeFiles(t, map[string][]byte{"manager": []byte("#!/bin/sh\n")}), "-output", output},
			want: "as a Linux binary",
		},
		"authorities that are not there": {
			args: []string{"-binaries", good, "-output", output, "-ca", filepath.Join(good, "none.pem")},
			want: "find the certificate authorities",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			err := run(test.args, io.Discard)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got error %v, want one with %q", err, test.want)
			}
			if _, err := os.Stat(output); !errors.Is(err, os.ErrNotExist) {
				t.Error("a refused build left an archive behind")
			}
		})
	}
}

func TestCheckStaticRefusesADynamicBinary(t *testing.T) {
	const dynamic = "/bin/sh"
	if _, err := os.Stat(dynamic); err != nil {
		t.Skipf("this machine has no %s", dynamic)
	}
	err := checkStatic(dynamic)
	if err == nil || !strings.Contains(err.Error(), "dynamically linked") {
		t.Errorf("got error %v, want one that says it is dynamically linked", err)
	}
}

func TestDescriptionNamesTheBinaries(t *testing.T) {
	for want, names := range map[string][]string{
		"Agent Runtime Operator: manager":                     {"manager"},
		"Agent Runtime Operator: manager and runtime":         {"runtime", "manager"},
		"Agent Runtime Operator: facade, manager and runtime": {"manager", "runtime", "facade"},
	} {
		var binaries []entry
		for _, name := range names {
			binaries = append(binaries, entry{path: name})
		}
		if got := describe(binaries); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestDockerfileDescribesTheSameImage(t *testing.T) {
	content, err := os.ReadFile("../../Dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	dockerfile := string(content)
	wants := []string{
		"USER " + user,
		`ENTRYPOINT ["` + entrypoint + `"]`,
		"ENV PATH=/ SSL_CERT_FILE=/" + authoritiesPath,
		strings.ReplaceAll(passwd, "\n", `\n`),
		strings.ReplaceAll(group, "\n", `\n`),
	}
	programs, err := os.ReadDir("../../cmd")
	if err != nil {
		t.Fatal(err)
	}
	var binaries []entry
	for _, program := range programs {
		binaries = append(binaries, entry{path: program.Name()})
	}
	for label, value := range labels("$VERSION", describe(binaries)) {
		wants = append(wants, label+`="`+value+`"`)
	}
	for _, want := range wants {
		if !strings.Contains(dockerfile, want) {
			t.Errorf("the Dockerfile lacks %s", want)
		}
	}
}

package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"os"
	"path"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// entry is one file or directory of a layer, owned by root.
type entry struct {
	path string // relative to the image's root, with slashes
	mode int64
	dir  bool
	data []byte // the content, unless file is set
	file string // a file on disk that holds the content
}

// newLayer returns the layer of the entries and of the directories above them.
// It is written anew, in the same order, each time it is read, so that big
// binaries are never held in memory.
func newLayer(entries []entry) (v1.Layer, error) {
	entries = withParents(entries)
	open := func() (io.ReadCloser, error) {
		reader, writer := io.Pipe()
		// It ends when all is read, or when the reader is closed.
		go func() { writer.CloseWithError(writeTar(writer, entries)) }()
		return reader, nil
	}
	return tarball.LayerFromOpener(open, tarball.WithCompressionLevel(gzip.BestSpeed))
}

// withParents adds the directories above the entries and sorts all by path, so
// that a directory stands before what is in it.
func withParents(entries []entry) []entry {
	all := map[string]entry{}
	for _, e := range entries {
		for parent := path.Dir(e.path); parent != "."; parent = path.Dir(parent) {
			if _, ok := all[parent]; !ok {
				all[parent] = entry{path: parent, mode: 0o755, dir: true}
			}
		}
		all[e.path] = e
	}
	sorted := make([]entry, 0, len(all))
	for _, e := range all {
		sorted = append(sorted, e)
	}
	slices.SortFunc(sorted, func(a, b entry) int { return strings.Compare(a.path, b.path) })
	return sorted
}

// writeTar writes the entries as an uncompressed tar stream.
func writeTar(w io.Writer, entries []entry) error {
	archive := tar.NewWriter(w)
	for _, e := range entries {
		if err := writeEntry(archive, e); err != nil {
			return fmt.Errorf("write %s: %w", e.path, err)
		}
	}
	return archive.Close()
}

func writeEntry(archive *tar.Writer, e entry) error {
	header := &tar.Header{Name: e.path, Mode: e.mode, ModTime: epoch, Format: tar.FormatUSTAR, Typeflag: tar.TypeReg}
	if e.dir {
		header.Name += "/"
		header.Typeflag = tar.TypeDir
		return archive.WriteHeader(header)
	}
	content, size, err := e.open()
	if err != nil {
		return err
	}
	defer content.Close()
	header.Size = size
	if err := archive.WriteHeader(header); err != nil {
		return err
	}
	_, err = io.Copy(archive, content)
	return err
}

// open returns the entry's content and its size in bytes.
func (e entry) open() (io.ReadCloser, int64, error) {
	if e.file == "" {
		return io.NopCloser(bytes.NewReader(e.data)), int64(len(e.data)), nil
	}
	file, err := os.Open(e.file)
	if err != nil {
		return nil, 0, err
	}
	info, err := file.Stat()
	if err != nil {
		file.Close()
		return nil, 0, err
	}
	return file, info.Size(), nil
}

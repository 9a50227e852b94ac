package contentstore

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"os"
	"strings"
	"time"
)

// staleAfter is how old a half-written file must be before it counts as left over
// by a process that died. Far longer than any write takes, so that a file in the
// making is never taken away.
const staleAfter = time.Hour

// disk is the part of the operating system a write depends on.
type disk struct {
	mkdir   func(dir *os.Root, name string) error
	write   func(f *os.File, content []byte) error
	syncDir func(dir *os.Root) error
	rename  func(dir *os.Root, from, to string) error
}

func realDisk() disk {
	return disk{
		mkdir: func(dir *os.Root, name string) error { return dir.Mkdir(name, dirMode) },
		write: func(f *os.File, content []byte) error {
			if _, err := f.Write(content); err != nil {
				return err
			}
			return f.Sync()
		},
		syncDir: func(dir *os.Root) error {
			f, err := dir.Open(".")
			if err != nil {
				return err
			}
			return errors.Join(f.Sync(), f.Close())
		},
		rename: func(dir *os.Root, from, to string) error { return dir.Rename(from, to) },
	}
}

type outcome int

const (
	outcomeCreated outcome = iota
	outcomeUpdated
	outcomeUnchanged
)

// put makes the file called name in dir hold content.
func (l *Local) put(dir *os.Root, name string, content []byte) (outcome, error) {
	same, exists, err := holds(dir, name, content)
	if err != nil {
		return 0, err
	}
	if same {
		return outcomeUnchanged, nil
	}
	if err := l.replace(dir, name, content); err != nil {
		return 0, err
	}
	if exists {
		return outcomeUpdated, nil
	}
	return outcomeCreated, nil
}

// holds reports whether the file called name in dir exists and equals content.
func holds(dir *os.Root, name string, content []byte) (same, exists bool, err error) {
	f, err := openRegular(dir, name)
	if errors.Is(err, fs.ErrNotExist) {
		return false, false, nil
	}
	if err != nil {
		return false, false, err
	}
	defer closeQuietly(f)
	info, err := f.Stat()
	if err != nil {
		return false, true, err
	}
	if info.Size() != int64(len(content)) {
		return false, true, nil
	}
	current, err := io.ReadAll(io.LimitReader(f, int64(len(content))+1))
	return err == nil && bytes.Equal(current, content), true, err
}

// replace writes content to a new file beside name and renames it into place, so
// that name is never seen half-written.
func (l *Local) replace(dir *os.Root, name string, content []byte) (err error) {
	temp := tempPrefix + randomName()
	f, err := dir.OpenFile(temp, os.O_CREATE|os.O_EXCL|os.O_WRONLY, fileMode)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, dir.Remove(temp))
		}
	}()
	if err := errors.Join(l.disk.write(f, content), f.Close()); err != nil {
		return err
	}
	return l.disk.rename(dir, temp, name)
}

// sweep removes what a process that died half-way left in dir.
func (l *Local) sweep(dir *os.Root) error {
	f, err := dir.Open(".")
	if err != nil {
		return err
	}
	defer closeQuietly(f)
	for {
		chunk, err := f.ReadDir(readChunk)
		for _, entry := range chunk {
			if err := l.sweepEntry(dir, entry); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func (l *Local) sweepEntry(dir *os.Root, entry fs.DirEntry) error {
	if !strings.HasPrefix(entry.Name(), tempPrefix) || !entry.Type().IsRegular() {
		return nil
	}
	info, err := dir.Lstat(entry.Name())
	if err == nil && l.now().Sub(info.ModTime()) > staleAfter {
		err = dir.Remove(entry.Name())
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

func randomName() string {
	var b [12]byte
	_, _ = rand.Read(b[:]) // documented never to fail
	return hex.EncodeToString(b[:])
}

package contentstore

import (
	"errors"
	"io"
	"io/fs"
	"strings"
)

// maxDirEntries bounds a directory that is written to, since all its names are held
// to find one that differs only by case.
const maxDirEntries = 100_000

// snapshot is what directories held when a batch was checked, by path.
type snapshot struct {
	local *Local
	dirs  map[string]dirNames
}

// dirNames are the entries of a directory; empty when it does not exist.
type dirNames struct {
	exact map[string]fs.FileMode
	// folded holds FoldPath of each name.
	folded map[string]struct{}
}

func newSnapshot(l *Local) *snapshot {
	return &snapshot{local: l, dirs: make(map[string]dirNames)}
}

// checkDir refuses a directory that cannot be, or be made, at the location.
func (s *snapshot) checkDir(at location) error {
	for i := at.identity; i < len(at.segments); i++ {
		mode, exists, err := s.find(at.segments[:i], at.segments[i])
		if err != nil || !exists {
			return err
		}
		if !mode.IsDir() {
			return refuse(KindConflict, "", "a file or a link stands where a directory is named")
		}
	}
	return nil
}

// checkFile refuses a file that cannot be written at the location and reports
// whether it exists.
func (s *snapshot) checkFile(at location) (exists bool, err error) {
	if err := s.checkDir(at.up()); err != nil {
		return false, err
	}
	mode, exists, err := s.find(at.parent(), at.base())
	if err != nil || !exists {
		return false, err
	}
	if !mode.IsRegular() {
		return false, refuse(KindConflict, "", "a directory or a link stands where a file is named")
	}
	return true, nil
}

// find looks up the entry called name and refuses one whose name differs only by
// case.
func (s *snapshot) find(dir []string, name string) (mode fs.FileMode, exists bool, err error) {
	names, err := s.load(dir)
	if err != nil {
		return 0, false, err
	}
	if mode, ok := names.exact[name]; ok {
		return mode, true, nil
	}
	if _, ok := names.folded[FoldPath(name)]; ok {
		return 0, false, refuse(KindConflict, "", "a path that differs only by case exists")
	}
	return 0, false, nil
}

func (s *snapshot) load(segments []string) (dirNames, error) {
	key := strings.Join(segments, "/")
	if names, ok := s.dirs[key]; ok {
		return names, nil
	}
	names, err := s.read(segments)
	if err == nil {
		s.dirs[key] = names
	}
	return names, err
}

func (s *snapshot) read(segments []string) (dirNames, error) {
	dir, err := s.local.openDir(segments)
	if errors.Is(err, fs.ErrNotExist) || IsNotFound(err) {
		return dirNames{}, nil
	}
	if err != nil {
		return dirNames{}, err
	}
	defer closeQuietly(dir)
	f, err := dir.Open(".")
	if err != nil {
		return dirNames{}, err
	}
	defer closeQuietly(f)
	names := dirNames{exact: make(map[string]fs.FileMode), folded: make(map[string]struct{})}
	for {
		entries, err := f.ReadDir(readChunk)
		for _, entry := range entries {
			names.exact[entry.Name()] = entry.Type()
			names.folded[FoldPath(entry.Name())] = struct{}{}
		}
		switch {
		case errors.Is(err, io.EOF):
			return names, nil
		case err != nil:
			return dirNames{}, err
		case len(names.exact) > maxDirEntries:
			return dirNames{}, refuse(KindExhausted, "", "a directory holds more than %d entries", maxDirEntries)
		}
	}
}

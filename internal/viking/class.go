package viking

import "slices"

// ContextType is the kind of content that a place holds (G.3).
type ContextType string

// The three context types.
const (
	TypeResource ContextType = "resource"
	TypeMemory   ContextType = "memory"
	TypeSkill    ContextType = "skill"
)

// NoIndex is the content index of a place outside every content directory.
const NoIndex = -1

// Class is what G.3 says of a URI.
type Class struct {
	Type ContextType
	// Index is the position, in Segments, of the directory that gives the type;
	// NoIndex when there is none, as in viking://resources.
	Index int
	// NamespaceDir reports that the URI is that directory itself.
	NamespaceDir bool
	// SkillRoot reports that the URI is one segment below a skills directory.
	SkillRoot bool
}

var contentTypes = map[string]ContextType{
	dirMemories:  TypeMemory,
	dirResources: TypeResource,
	dirSkills:    TypeSkill,
}

// Classify says what kind of content u names, by its path alone (G.3).
func (u URI) Classify() Class {
	segments := u.Segments()
	index := contentIndex(segments)
	if index == NoIndex {
		return Class{Type: TypeResource, Index: NoIndex}
	}
	class := Class{Type: contentTypes[segments[index]], Index: index, NamespaceDir: len(segments) == index+1}
	class.SkillRoot = class.Type == TypeSkill && len(segments) == index+2
	return class
}

func contentIndex(segments []string) int {
	at := func(i int, names ...string) bool { return len(segments) > i && slices.Contains(names, segments[i]) }
	switch {
	case at(0, ScopeAgent) && at(1, dirSkills):
		return 1
	case at(0, ScopeAgent, ScopeUser) && at(2, dirMemories, dirResources, dirSkills):
		return 2
	case at(0, ScopeUser) && at(2, dirPeers) && at(4, dirMemories, dirResources):
		return 4
	}
	return NoIndex
}

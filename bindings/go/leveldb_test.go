package terrace

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// The real LevelDB opens what this package wrote, and the other way round.
func TestLevelDBOpensTheStore(t *testing.T) {
	const header = "/usr/include/leveldb/c.h"
	if _, err := os.Stat(header); err != nil {
		if required("leveldb") {
			t.Fatalf("%v (package libleveldb-dev)", err)
		}
		t.Skipf("%v (package libleveldb-dev)", err)
	}
	program := filepath.Join(t.TempDir(), "leveldb")
	run(t, "cc", "testdata/leveldb.c", "-o", program, "-lleveldb")

	db, path := inDirectory(t, nil)
	fill(t, db, 5000)
	must(t, db.CompactRange(Range{}))
	must(t, db.DeleteRange(Range{Start: []byte("key001000")}, nil))
	must(t, db.Put([]byte("from"), []byte("go"), nil))
	must(t, db.Close())
	lines := strings.Split(strings.TrimSpace(run(t, program, path)), "\n")
	if len(lines) != 1001 || lines[0] != "from=go" || lines[1000] != "key000999=value 999" {
		t.Fatalf("LevelDB found %d pairs, from %q to %q", len(lines), lines[0], lines[len(lines)-1])
	}

	db = got[*DB](t)(Open(path, nil))
	defer db.Close()
	if value := got[[]byte](t)(db.Get([]byte("from"), nil)); string(value) != "leveldb" {
		t.Fatalf("%q", value)
	}
}

// required returns whether the environment forbids to skip tests that need a thing.
func required(thing string) bool {
	for _, listed := range strings.Split(os.Getenv("TERRACE_REQUIRE"), ",") {
		if listed == thing || listed == "all" {
			return true
		}
	}
	return false
}

// run returns the output of a program that must succeed.
func run(t *testing.T, program string, arguments ...string) string {
	t.Helper()
	output, err := exec.Command(program, arguments...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", program, err, output)
	}
	return string(output)
}

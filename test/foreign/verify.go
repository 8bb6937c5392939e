// Verifies what a plant store and its witnesses give out with golang.org/x/mod/sumdb, which Go itself verifies its
// modules with: signatures and notes by sumdb/note, proofs and tiles by sumdb/tlog. A JSON object in each line of
// standard input, a verdict in each line of standard output: "verified: …" or "refused: …".
//
// The one thing that sumdb does not have is the signature of a witness: cosignature below is written from the text of
// https://c2sp.org/tlog-cosignature.
package main

import (
	"bufio"
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"
)

// input is what is to be verified. What is empty is not looked at.
type input struct {
	LogKey      string            `json:"logKey"`
	Witnesses   []string          `json:"witnesses"` // each of them has to have cosigned every note
	Checkpoint  string            `json:"checkpoint"`
	Older       string            `json:"older"`       // the checkpoint has to go on from this one
	Consistency []string          `json:"consistency"` // hashes in base64
	Receipt     string            `json:"receipt"`     // https://c2sp.org/tlog-proof; its extra data is the leaf
	Tiles       map[string]string `json:"tiles"`       // of the checkpoint, in base64, by their paths
}

// cosignature is the type 0x04 of a key: Ed25519, of a checkpoint at a time.
const cosignature = 4

type witness struct {
	name string
	hash uint32
	key  ed25519.PublicKey
}

func (w witness) Name() string    { return w.name }
func (w witness) KeyHash() uint32 { return w.hash }

func (w witness) Verify(text, signature []byte) bool {
	if len(signature) != 8+ed25519.SignatureSize {
		return false
	}
	time := binary.BigEndian.Uint64(signature)
	message := append([]byte(fmt.Sprintf("cosignature/v1\ntime %d\n", time)), text...)
	return time != 0 && time < 1<<63 && ed25519.Verify(w.key, message, signature[8:])
}

func newWitness(vkey string) (note.Verifier, error) {
	parts := strings.SplitN(vkey, "+", 3)
	if len(parts) != 3 {
		return nil, errors.New("this is no verifier key")
	}
	hash, err := strconv.ParseUint(parts[1], 16, 32)
	if err != nil {
		return nil, err
	}
	data, err := base64.StdEncoding.DecodeString(parts[2])
	if err != nil {
		return nil, err
	}
	id := sha256.Sum256(append([]byte(parts[0]+"\n"), data...))
	if len(data) != 1+ed25519.PublicKeySize || data[0] != cosignature || binary.BigEndian.Uint32(id[:]) != uint32(hash) {
		return nil, errors.New("this is no Ed25519 key of a witness")
	}
	return witness{parts[0], uint32(hash), data[1:]}, nil
}

// opened is the tree of a note that the log and all witnesses have signed.
func opened(text string, in input) (tree tlog.Tree, err error) {
	log, err := note.NewVerifier(in.LogKey)
	if err != nil {
		return tree, err
	}
	verifiers := []note.Verifier{log}
	for _, vkey := range in.Witnesses {
		verifier, err := newWitness(vkey)
		if err != nil {
			return tree, err
		}
		verifiers = append(verifiers, verifier)
	}
	open, err := note.Open([]byte(text), note.VerifierList(verifiers...))
	if err != nil {
		return tree, err
	}
	if len(open.Sigs) != len(verifiers) {
		return tree, fmt.Errorf("signed by %d of %d", len(open.Sigs), len(verifiers))
	}
	lines := strings.Split(open.Text, "\n")
	if len(lines) < 4 || lines[0] != log.Name() {
		return tree, errors.New("this is no checkpoint of this log")
	}
	if len(lines) > 4 { // Sunlight's witness answers 400 to it
		return tree, errors.New("a checkpoint with extension lines")
	}
	if tree.N, err = strconv.ParseInt(lines[1], 10, 64); err != nil {
		return tree, err
	}
	tree.Hash, err = tlog.ParseHash(lines[2])
	return tree, err
}

func hashes(texts []string) (all []tlog.Hash, err error) {
	for _, text := range texts {
		hash, err := tlog.ParseHash(text)
		if err != nil {
			return nil, err
		}
		all = append(all, hash)
	}
	return all, nil
}

// receipt verifies a tlog-proof, and gives its tree, its index, and its hashes.
func receipt(in input) (tree tlog.Tree, index int64, proof tlog.RecordProof, err error) {
	head, checkpoint, _ := strings.Cut(in.Receipt, "\n\n")
	lines := strings.Split(head, "\n")
	if len(lines) < 3 || lines[0] != "c2sp.org/tlog-proof@v1" ||
		!strings.HasPrefix(lines[1], "extra ") || !strings.HasPrefix(lines[2], "index ") {
		return tree, 0, nil, errors.New("this is no tlog-proof with extra data")
	}
	leaf, err := base64.StdEncoding.DecodeString(lines[1][len("extra "):])
	if err != nil {
		return tree, 0, nil, err
	}
	if index, err = strconv.ParseInt(lines[2][len("index "):], 10, 64); err != nil {
		return tree, 0, nil, err
	}
	if proof, err = hashes(lines[3:]); err != nil {
		return tree, 0, nil, err
	}
	if tree, err = opened(checkpoint, in); err != nil {
		return tree, 0, nil, err
	}
	return tree, index, proof, tlog.CheckRecord(proof, tree.N, tree.Hash, index, tlog.RecordHash(leaf))
}

// tiles reads the tiles that were sent along; tlog.TileHashReader verifies them by the tree.
type tiles map[string]string

func (tiles) Height() int                     { return 8 }
func (tiles) SaveTiles([]tlog.Tile, [][]byte) {}
func (sent tiles) ReadTiles(asked []tlog.Tile) (all [][]byte, err error) {
	for _, tile := range asked {
		path := "tile/" + strings.TrimPrefix(tile.Path(), "tile/8/")
		data, err := base64.StdEncoding.DecodeString(sent[path])
		if err != nil || len(data) == 0 {
			return nil, fmt.Errorf("there is no %s", path)
		}
		all = append(all, data)
	}
	return all, nil
}

func same(one, other []tlog.Hash) bool {
	if len(one) != len(other) {
		return false
	}
	for at := range one {
		if !bytes.Equal(one[at][:], other[at][:]) {
			return false
		}
	}
	return true
}

func verify(in input) (said []string, err error) {
	tree, err := opened(in.Checkpoint, in)
	if err != nil {
		return nil, err
	}
	said = append(said, fmt.Sprintf("%d events signed by %d", tree.N, 1+len(in.Witnesses)))
	reader := tlog.TileHashReader(tree, tiles(in.Tiles))
	if in.Older != "" {
		older, err := opened(in.Older, in)
		if err != nil {
			return nil, err
		}
		proof, err := hashes(in.Consistency)
		if err != nil {
			return nil, err
		}
		if err := tlog.CheckTree(proof, tree.N, tree.Hash, older.N, older.Hash); err != nil {
			return nil, err
		}
		said = append(said, fmt.Sprintf("go on from %d", older.N))
		if in.Tiles != nil {
			root, err := tlog.TreeHash(older.N, reader)
			if err != nil {
				return nil, err
			}
			made, err := tlog.ProveTree(tree.N, older.N, reader)
			if err != nil {
				return nil, err
			}
			if root != older.Hash || !same(made, proof) {
				return nil, errors.New("the tiles make another proof of consistency")
			}
		}
	}
	if in.Receipt != "" {
		of, index, proof, err := receipt(in)
		if err != nil {
			return nil, err
		}
		said = append(said, fmt.Sprintf("event %d is in %d", index, of.N))
		if in.Tiles != nil && of.N == tree.N {
			made, err := tlog.ProveRecord(tree.N, index, reader)
			if err != nil {
				return nil, err
			}
			if !same(made, proof) {
				return nil, errors.New("the tiles make another proof of inclusion")
			}
			said = append(said, "also by the tiles")
		}
	}
	return said, nil
}

func main() {
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<26)
	for lines.Scan() {
		var in input
		err := json.Unmarshal(lines.Bytes(), &in)
		var said []string
		if err == nil {
			said, err = verify(in)
		}
		if err != nil {
			fmt.Println("refused:", strings.ReplaceAll(err.Error(), "\n", " "))
		} else {
			fmt.Println("verified:", strings.Join(said, ", "))
		}
	}
	if err := lines.Err(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
}

#!/usr/bin/env python3
"""Checks a bundle or a list proof of the plant store, independently of its code:
check.py FILE [--key VKEY]... [--witness VKEY]... [--policy FILE] [--owner NAME] [--against CHECKPOINT]
What it proves stands in docs/audit.md. Exit status: 0 everything holds, 1 something does not, 2 wrong usage.
Python 3.8, and openssl for --key. FILE may be gzip; unpack zstd first."""
import argparse, base64, functools, gzip, hashlib, json, re, subprocess, sys, tempfile, urllib.parse, zlib
from decimal import Decimal
MAX_LINE, INTEGER, HASH = 2097152, r'(0|[1-9][0-9]{0,15})', r'[A-Za-z0-9+/]{43}='
HASHES = r'\[((?:"%s"(?:,"%s")*)?)\]' % (HASH, HASH)
AFTER_EVENT = re.compile(r',"hash":"(%s)","index":%s(?:,"proof":%s)?\}' % (HASH, INTEGER, HASHES))
PLANT, STATE = re.compile(r'plant-([^/]*)/(0|-?[1-9][0-9]{0,15})'), 'plants-state/v1 '
ERASED = re.compile(r'\{"data":\{"leafHash":"(%s)"\},"id":"[0-9a-f-]{36}","metadata":\{"schemaVersion":1\},"revision":%s,'
    r'"stream":"erased-[0-9a-f-]{36}","type":"Erased"\}' % (HASH, INTEGER))  # docs/erasure.md
LIST, MAX_LIST = b'{"format":"plants-list","version":', 67108864
SIBLINGS = r'\[(?:{0}(?:,{0})*)?\]'.format(r'\{"bit":(?:0|[1-9][0-9]{0,2}),"hash":"%s"\}' % HASH)
BESIDE = re.compile(r'\{"left":%s,"right":%s\}' % (SIBLINGS, SIBLINGS))  # the plants of one owner in the state
BLOCK, END = re.compile(r'\{"block":%s,"proof":%s\}' % (INTEGER, HASHES)), re.compile(r'\{"end":%s\}' % INTEGER)

def need(holds, reason):
    if not holds: raise ValueError(reason)
def sha256(data): return hashlib.sha256(data).digest()
def node(left, right): return sha256(b'\1' + left + right)
def hashes_in(text): return [from_base64(quoted[1:-1]) for quoted in text.split(',')] if text else []
def from_base64(text):
    data = base64.b64decode(text, validate=True)
    need(data and base64.b64encode(data).decode() == text, 'this is not base64')
    return data
def inclusion_root(index, size, leaf, proof):  # the inverse of PATH, RFC 9162, section 2.1.3.1
    need((size == 1) == (not proof), 'its proof is too long or too short')
    if size == 1: return leaf
    split = 1 << (size - 1).bit_length() - 1
    if index < split: return node(inclusion_root(index, split, leaf, proof[:-1]), proof[-1])
    return node(proof[-1], inclusion_root(index - split, size - split, leaf, proof[:-1]))
def append(stack, leaf):  # stack: [(leaves, hash)], the complete subtrees; gives the hash of the last 256, if complete
    block, hash, leaves = None, leaf, 1
    while stack and stack[-1][0] == leaves:
        hash, leaves = node(stack.pop()[1], hash), 2 * leaves
        if leaves == 256: block = hash
    stack.append((leaves, hash))
    return block
def root_of(stack):
    if not stack: return sha256(b'')
    return functools.reduce(lambda right, left: node(left[1], right), stack[-2::-1], stack[-1][1])
def varint(value): return bytes([value] if value < 128 else [value & 127 | 128, value >> 7])  # below 2^14
def state_root(plants, left=(), right=()):  # docs/state-tree.md; plants: {key: value}, 40 and 32 bytes
    subtrees, bit, last, stack = [], -1, None, []  # from left to right: the first bit that differs from before, hash
    for next, hash in left: subtrees, bit = subtrees + [(bit, hash)], next
    for key in sorted(plants):
        if last: bit = 320 - (int.from_bytes(key, 'big') ^ int.from_bytes(last, 'big')).bit_length()
        subtrees.append((bit, sha256(b'\0\x28' + key + b'\x20' + plants[key])))
        last = key
    for bit, hash in subtrees + list(right)[::-1] + [(-1, None)]:
        while len(stack) > 1 and stack[-1][0] > bit:
            (at, second), (before, first) = stack.pop(), stack.pop()
            stack.append((before, sha256(b'\1' + varint(at) + first + second)))
        if hash: stack.append((bit, hash))
    return stack[0][1] if stack else sha256(b'')
def value_of(data, id): return sha256(('{"data":%s,"id":%s}' % (canonical(data), canonical(id))).encode())
def quoted(owner): return urllib.parse.quote(owner, safe='-_.~')
def key_of(prefix, id): return prefix + (id + 2 ** 63).to_bytes(8, 'big')
def bit_of(key, bit): return key[bit >> 3] >> 7 - (bit & 7) & 1
def change_state(plants, event):
    plant = PLANT.fullmatch(event['stream'])
    if not plant or abs(int(plant[2])) >= 2 ** 53: return
    key = key_of(sha256(plant[1].encode()), int(plant[2]))
    if isinstance(event['data'], dict) and 'id' in event['data'] and 'name' not in event['data']: plants.pop(key, None)
    else: plants[key] = value_of(event['data'], event['id'])
def add_erased(erased, event):  # erasures whose record did not come yet: {id: [how many, the hash over their hashes]}
    if event['stream'].startswith('erased-'):
        tally = erased.setdefault(event['stream'][7:], [0, hashlib.sha256()])
        need(tally and event['type'] == 'Erased', 'it was erased after its erasure was recorded')
        tally[0] += 1
        tally[1].update(from_base64(event['data']['leafHash']))
    if event['stream'] == 'operation-erasures' and event['type'] == 'OwnerErased':
        data = event['data']
        count, digest = erased.get(data['erasure']) or [0, hashlib.sha256()]
        fits = count == int(data['events']) and digest.digest() == from_base64(data['digest'])
        need(fits, 'what the erasure %s has erased is not what is recorded' % data['erasure'])
        erased[data['erasure']] = None
class Number(str):  # a number as RFC 8785 writes it
    def __new__(cls, text):
        value = Decimal(repr(float(text))).normalize()
        need(value.is_finite(), 'a number is too large')
        exponent = value.adjusted()
        written = format(value, 'f') if -7 < exponent < 21 else '%se%+d' % (value.scaleb(-exponent), exponent)
        return str.__new__(cls, written if value else '0')
def canonical(value, levels=101):
    if isinstance(value, Number): return value
    if not isinstance(value, (dict, list)): return json.dumps(value, ensure_ascii=False)
    need(levels > 0, 'values are nested too deep')
    if isinstance(value, list): return '[' + ','.join(canonical(inner, levels - 1) for inner in value) + ']'
    keys = sorted(value, key=lambda key: key.encode('utf-16-be'))
    return '{' + ','.join(canonical(key) + ':' + canonical(value[key], levels - 1) for key in keys) + '}'
def parse(text, names):  # an object that can be written, and read, in one way only
    value = json.loads(text, parse_int=Number, parse_float=Number, parse_constant=Number)
    need(isinstance(value, dict) and canonical(value) == text, 'this is not in the canonical form of RFC 8785')
    need(set(value) == set(names.split()), 'it should have ' + names)
    return value
def is_signed(text, signature, key):
    files = [tempfile.NamedTemporaryFile(buffering=0) for _ in range(3)]
    for file, data in zip(files, (bytes.fromhex('302a300506032b6570032100') + key, signature, text)): file.write(data)
    command = 'openssl pkeyutl -verify -pubin -keyform DER -rawin -inkey %s -sigfile %s -in %s'
    return subprocess.run((command % tuple(file.name for file in files)).split(), capture_output=True).returncode == 0
def is_cosigned(text, data, key):  # C2SP tlog-cosignature, Ed25519; who cosigns by ML-DSA-44 alone does not count
    time = int.from_bytes(data[:8], 'big')
    return len(data) == 72 and 0 < time < 2 ** 63 and is_signed(b'cosignature/v1\ntime %d\n' % time + text, data[8:], key)

def checkpoint(note, vkeys, witnesses=(), enough=lambda by: True):  # C2SP signed-note and tlog-checkpoint; gives (origin, size, root, state root)
    need(len(note.encode()) <= 1000000 and not re.search('[\0-\x09\x0b-\x1f]', note), 'this is no signed note')
    text, _, below = note.rpartition('\n\n')
    origin, size, root, *_ = (text + '\n\n\n').split('\n')
    lines = [re.fullmatch('\u2014 ([^\\s+]+) (.+)', line) for line in below.split('\n')[:-1]]
    need(below.endswith('\n') and 0 < len(lines) <= 100 and all(lines), 'there should be signatures')
    signatures = [(line[1], from_base64(line[2])) for line in lines]
    known = [(data[4:], vkey) for name, data in signatures for vkey in vkeys if (name, data[:4]) == vkey[:2]]
    need(all(len(data) > 4 for _, data in signatures) and (known or not vkeys), 'it is not signed by these keys')
    need(all(is_signed(text.encode() + b'\n', data, vkey[2]) for data, vkey in known), 'its signature is wrong')
    cosigned = [(data[4:], vkey) for name, data in signatures for vkey in witnesses if (name, data[:4]) == vkey[:2] and len(vkey[2]) == 32]
    need(all(is_cosigned(text.encode() + b'\n', data, vkey[2]) for data, vkey in cosigned), 'a cosignature is wrong')
    need(enough({vkey for _, vkey in cosigned}), 'it is not cosigned by enough witnesses')
    fits = '' not in text.split('\n') and re.fullmatch(INTEGER, size) and int(size) < 2 ** 53 and re.fullmatch(HASH, root)
    need(fits and (int(size) or from_base64(root) == sha256(b'')), 'this is no checkpoint')
    need(not vkeys or origin in [vkey[0] for _, vkey in known], 'it is of another log')
    states = [from_base64(line[len(STATE):]) for line in text.split('\n')[3:] if line.startswith(STATE)]
    need(len(states) < 2 and all(len(one) == 32 for one in states), 'its state root is none')
    return origin, int(size), from_base64(root), states[0] if states else None
def checkpoints(proof, vkeys, demand):  # version 2: the cosignatures are on another note than the state root
    need(type(proof['version']) is Number and proof['version'] == '12'['cosigned' in proof], 'it is of another version')
    if 'cosigned' not in proof: return checkpoint(proof['checkpoint'], vkeys, *demand)
    first, last = checkpoint(proof['checkpoint'], vkeys), checkpoint(proof['cosigned'], vkeys, *demand)
    return need(first[:3] == last[:3], 'another checkpoint is cosigned') or first
def check(lines, vkeys, older, at, demand):  # at: the line and the event that it is at, for whoever catches what is thrown
    at[0], size, ended, owner, whole = 0, None, None, None, False
    for at[0], raw in enumerate(lines, 1):
        need(len(raw) <= MAX_LINE + 1 and raw.endswith(b'\n') and not ended, 'it is too long, cut off, or one too many')
        text = raw[:-1].decode()
        if size is None:
            names = ('owner' if '"owner":' in text else 'before') + ' cosigned' * ('"cosigned":' in text)
            header = parse(text, 'checkpoint format from version ' + names)
            need(type(header['from']) is Number and header['format'] == 'plants-bundle', 'this is no bundle')
            origin, total, root, state = checkpoints(header, vkeys, demand)
            next = start = unproven = int(header['from'])
            owner, before, events, block, erased = header.get('owner'), header.get('before', []), 0, None, {}
            need(owner is None or type(owner) is str, 'this is no header')
            sizes = [2 ** bit for bit in range(52, -1, -1) if owner is None and start >> bit & 1]
            stack = list(zip(sizes, map(from_base64, before)))
            fits = len(sizes) == len(before) and all(len(one) == 32 for _, one in stack)
            need(0 <= start <= total and fits, 'from and before do not fit')
            known, known_root, known_state = older[1:] if older else (0, None, None)
            fits = not older or older[0] == origin and known <= total and (known < total or known_root == root)
            need(known < total or None in (state, known_state) or state == known_state, 'two states of the same events')
            plants = {} if start == 0 and (state or owner is None and known_state) else None
            need(fits, 'the older checkpoint is of another log, of other events, or not older')
            need(known in (0, total) or owner is None and start <= known, 'it cannot be compared with the older checkpoint')
            size = total
        elif text.startswith('{"event":'):
            split = text.rfind(',"hash":"')
            match = AFTER_EVENT.fullmatch(text[split:])
            need(match and not block and not whole, 'this is no event, or its turn has not come')
            index, leaf = int(match[2]), sha256(b'\0' + text[9:split].encode())
            need(owner is not None or index == next, 'here stands event %d' % index)
            at[1] = index
            need(next <= index < size, 'it is not in order')
            one = ERASED.fullmatch(text[9:split])
            if one: leaf = from_base64(one[1])
            need(base64.b64encode(leaf).decode() == match[1], 'the event or its hash was altered')
            event = parse(text[9:split], 'data id metadata revision stream type')
            fits = [type(event[name]) for name in ('id', 'stream', 'type', 'revision')] == [str, str, str, Number]
            need(fits and 0 <= int(event['revision']) < 2 ** 53, 'this is no event of the plant store')
            need((match[3] is None) == (owner is None), 'it has a proof too many, or none')
            if owner is None: block = append(stack, leaf)
            else:
                names = tuple(kind + quoted(owner) + '/' for kind in ('plant-', 'request-'))
                proven = inclusion_root(index, size, leaf, hashes_in(match[3])) == root
                need(proven and event['stream'].startswith(names), 'it is not what was signed, or of another owner')
            if plants is not None: change_state(plants, event)
            if owner is None and start == 0: add_erased(erased, event)
            next, events = index + 1, events + 1
        elif text.startswith('{"left":'):
            need(BESIDE.fullmatch(text) and owner is not None and plants is not None and not whole, 'this line does not belong here')
            sides, key = json.loads(text, parse_int=Number), sha256(quoted(owner).encode()) + bytes(8)
            left, right = (siblings(sides[side], key, turn, 256) for side, turn in (('left', 1), ('right', 0)))
            whole = plants and state_root(plants, left, right) == state
            need(whole, 'the plants that these events leave are not all those of the owner that were signed')
        else:
            match, end = BLOCK.fullmatch(text), END.fullmatch(text)
            need(match and block and int(match[1]) == next // 256 - 1 or end and not block, 'this line does not belong here')
            need(match or (owner is not None or next == size) and int(end[1]) == events, 'events are missing')
            at[1] = unproven if owner is None else None
            came_to = inclusion_root(int(match[1]), -(-size // 256), block, hashes_in(match[2])) if match else root_of(stack)
            need(owner is not None or came_to == root, 'one from %d to %d is not what was signed' % (unproven, next - 1))
            at[1] = None
            need(not end or not any(erased.values()), 'events are erased without a record')
            need(not end or owner is not None or None in (plants, state) or state_root(plants) == state, 'its state root is another')
            block, unproven, ended = None, next, end
        at[1] = next - 1
        need(owner is not None or next != known or known_root in (None, root_of(stack)), 'the older ones were others')
        at[1] = None
        fits = owner is not None or not known or next != known or None in (plants, known_state) or any(erased.values()) or state_root(plants) == known_state
        need(fits, 'the state root of the older checkpoint is another')
        at[1] = next if owner is None and next < size else None
    at[0] += 1
    need(ended, 'the bundle is cut off')
    return owner, '%d events from %d on, of %s, are in the checkpoint of %d events of %s%s' % (
        events, start, 'all owners' if owner is None else json.dumps(owner), size, json.dumps(origin),
        ', and so are all plants that are present' if whole else '')
def siblings(subtrees, key, side, bits=320):  # the subtrees beside the path to a key, where it turns to this side
    last, hashes = -1, []
    for bit, hash in ((one['bit'], one['hash']) for one in subtrees):
        need(type(bit) is Number and re.fullmatch(INTEGER, bit) and last < int(bit) < bits, 'a subtree has no such bit')
        last, hashes = int(bit), hashes + [(int(bit), from_base64(hash))]
        need(bit_of(key, last) == side and len(hashes[-1][1]) == 32, 'a subtree cannot stand at bit %d' % last)
    return hashes
def check_list(text, vkeys, demand):  # one page of the plants of one owner: docs/state-tree.md
    proof = json.loads(text, parse_int=Number, parse_float=Number, parse_constant=Number)
    owner, after, final, plants, before, instead = map(proof.get, 'owner after last plants before instead'.split())
    fits = type(owner) is str and type(final) is bool and type(plants) is list and len(plants) <= 1000
    need(fits and None not in proof.values(), 'this is no list proof')
    def id_in(id):
        need(type(id) is Number and re.fullmatch('-?' + INTEGER, id) and abs(int(id)) < 2 ** 53, 'an id is none')
        return int(id)
    origin, size, _, state = checkpoints(proof, vkeys, demand)
    need(state, 'its checkpoint commits to no state')
    need(all(type(plant['event']['id']) is str for plant in plants), 'an event has no id')
    prefix = sha256(quoted(owner).encode())
    page = [(key_of(prefix, id_in(one['id'])), value_of(one['event']['data'], one['event']['id'])) for one in plants]
    start = None if after is None else key_of(prefix, id_in(after))
    if before: page = [(key_of(prefix, id_in(before['id'])), from_base64(before['value']))] + page
    absent = not page
    need(instead is None or absent, 'instead stands only where the owner has nothing')
    if absent and instead: page = [(from_base64(instead['key']), from_base64(instead['value']))]
    keys = [key for key, _ in page]
    need(all(len(key) == 40 and len(value) == 32 and (key[:32] != prefix) == absent for key, value in page), 'a key is wrong')
    need(keys == sorted(set(keys)), 'the plants are not in order')
    need(not before or start and keys[0] <= start, 'one before the page was left out')
    need(absent or start is None or all(key > start for key in keys[bool(before):]), 'the page begins too early')
    need(final or plants, 'a page that is not the last one holds something')
    need(page or not proof['left'] + proof['right'], 'there is nothing beside nothing')
    left, right = (siblings(proof[side], keys[at], 1 + at) if page else [] for side, at in (('left', 0), ('right', -1)))
    if absent: fits = all(bit_of(prefix + bytes(8), bit) == bit_of(keys[0], bit) for bit, _ in left + right)
    else: fits = (before or all(bit < 256 for bit, _ in left)) and final != any(bit >= 256 for bit, _ in right)
    need(fits, 'there are plants before the page or after it, or none where there should be')
    need(state_root(dict(page), left, right) == state, 'the plants and the proof do not come to the state root')
    return owner, '%d plants of %s%s%s are in the state of %d events of %s, and no others are %s' % (len(plants),
        json.dumps(owner), '' if after is None else ' after %s' % after, '' if final else ', of which more follow,',
        size, json.dumps(origin), 'there' if final else 'between them')
def verifier_key(vkey, types=b'\1'):
    name, key_id, key = vkey.split('+', 2)
    need(sha256(name.encode() + b'\n' + from_base64(key))[:4].hex() == key_id and len(from_base64(key)) in (33, 1313), 'no key')
    need(from_base64(key)[0] in types and (from_base64(key)[0] == 6) == (len(from_base64(key)) > 33), 'a key of another type')
    return name, bytes.fromhex(key_id), from_base64(key)[1:]
def policy(name):  # C2SP tlog-policy: the keys of logs and witnesses, and whether a set of these witnesses is enough
    keys, rules, free, quorum = {'log': [], 'witness': []}, {}, set(), []
    with open(name, encoding='latin-1', newline='') as file: lines = file.read().split('\n')
    need(all(re.fullmatch('[\t -~\x80-\xff]*', line) for line in lines), 'the policy has control characters')
    for kind, *words in filter(None, (re.findall('[^ \t]+', re.sub('^[ \t]*#.*', '', line)) for line in lines)):
        fits = {'log': (1, 2), 'witness': (2, 3), 'group': range(3, 10 ** 6), 'quorum': (1,)}.get(kind, ())
        need(len(words) in fits, 'a line of the policy is none')
        names = words[2:] if kind == 'group' else words if kind == 'quorum' and words != ['none'] else []
        need(all(one in rules for one in names), 'the policy names what no line before defines')
        if kind in keys:
            key = verifier_key(words[kind == 'witness'].encode('latin-1').decode(), b'\4\6' if kind == 'witness' else b'\1')
            need(key[2] not in [known[2] for known in keys[kind]], 'a key stands in the policy twice')
            keys[kind].append(key)
            rule = lambda by, key=key: key in by
        else:
            need(kind == 'quorum' or re.fullmatch('any|all|[1-9][0-9]*', words[1]), 'a group of the policy is none')
            count = len(names) if kind == 'quorum' or words[1] == 'all' else int(words[1].replace('any', '1'))
            rule = lambda by, names=names, count=count: sum(rules[one](by) for one in names) >= count
        if kind == 'group':
            need(1 <= count <= len(names) == len(set(names)) and free.issuperset(names), 'a group of the policy is none')
            free.difference_update(names)
        if kind == 'quorum': quorum.append(rule)
        elif kind != 'log':
            need(words[0] not in rules and words[0] != 'none', 'the policy defines a name twice')
            rules[words[0]] = free.add(words[0]) or rule
    return need(len(quorum) == 1, 'a policy has one quorum') or (keys['log'], keys['witness'], quorum[0])

parser, at = argparse.ArgumentParser(description=__doc__), [None, None]
parser.add_argument('file', type=argparse.FileType('rb'))
parser.add_argument('--key', type=verifier_key, action='append', default=[])
parser.add_argument('--witness', type=lambda vkey: verifier_key(vkey, b'\4\6'), action='append', default=[])
parser.add_argument('--witnesses-required', type=int)
parser.add_argument('--policy', type=policy)
parser.add_argument('--against', type=argparse.FileType('rb'))
parser.add_argument('--owner')
options = parser.parse_args()
least = len(options.witness) if options.witnesses_required is None else options.witnesses_required
logs, *demand = options.policy or ([], options.witness, lambda by: len(by) >= least)
options.key += logs
try:
    older = options.against and checkpoint(options.against.read(1000001).decode(), options.key)
    file = gzip.open(options.file) if options.file.peek(2)[:2] == b'\x1f\x8b' else options.file
    if file.peek(len(LIST))[:len(LIST)] == LIST: owner, what = check_list(file.read(MAX_LIST).decode(), options.key, demand)
    else: owner, what = check(iter(lambda: file.readline(MAX_LINE + 2), b''), options.key, older, at, demand)
    need(options.owner in (None, owner), 'it is of another owner')
except Exception as error:  # whatever it is: nothing is proven
    where = ', '.join('%s %d: ' % pair for pair in zip(('line', 'event'), at) if pair[1] is not None).replace(': ,', ',')
    sys.exit('refused: %s%s' % ('' if isinstance(error, (OSError, EOFError, zlib.error)) else where, error))
print('%s: %s' % ('proven' if options.key else 'consistent, but signed by nobody knows whom', what))

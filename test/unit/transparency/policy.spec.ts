import { describe, expect, it } from '@jest/globals';
import { generateKeyPairSync } from 'node:crypto';
import { spawnSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { mlDsa44Key, signerKey } from '../../../src/audit/key.js';
import { lackOf } from '../../../src/transparency/cosignature.js';
import { formatVerifierKey, keyName, NoteRefused } from '../../../src/transparency/note.js';
import { parsePolicy, trustInPolicy } from '../../../src/transparency/policy.js';
import { EMPTY_ROOT } from '../../../src/transparency/merkle.js';
import { verifyCheckpoint } from '../../../src/transparency/signed.js';
import { PYTHON } from '../../support/python-check.js';
import { temporaryFolder } from '../../support/temporary-folder.js';
import { formatCheckpoint, cosign, type SignerKey, signNote } from '../../../src/transparency/sign.js';

const log = signerKey('plants.example/log', generateKeyPairSync('ed25519').privateKey);
const named = ['X1', 'X2', 'X3', 'Y1', 'Y2'] as const;
const witnesses = new Map<string, SignerKey>(
  named.map((name) => [
    name,
    signerKey(`${name.toLowerCase()}.example`, generateKeyPairSync('ed25519').privateKey, 'cosignature'),
  ]),
);
const signerOf = (name: string): SignerKey => {
  const key = witnesses.get(name);
  if (!key) throw new Error(`no witness is called ${name}`);
  return key;
};
const vkeyOf = (name: string): string => formatVerifierKey(signerOf(name), 'cosignature');
const LOG = `log ${formatVerifierKey(log)}`;
const witness = (name: string, called = name): string => `witness ${called} ${vkeyOf(name)}`;

/** The example of the standard, with tabs, comments, URLs, and a name that is not UTF-8. */
const EXAMPLE = [
  '# two organizations',
  `\t${LOG}  https://plants.example`,
  '',
  ...['X1', 'X2', 'X3'].map((name) => witness(name)),
  'group X-witnesses 2 X1 X2 X3',
  `${witness('Y1', 'Y\xe91')} https://y.example`,
  witness('Y2'),
  'group Y-witnesses any Y\xe91 Y2',
  ' # both',
  'group X-and-Y all X-witnesses Y-witnesses ',
  'quorum\tX-and-Y',
  '',
].join('\n');

/** A key of ML-DSA-44, and a policy that one of X1 and it is enough for. */
const long = await mlDsa44Key('x9.example', Buffer.alloc(32));
const WITH_LONG = `${LOG}\n${witness('X1')}\nwitness X9 ${formatVerifierKey(long, 'cosignature')}\ngroup G any X1 X9\nquorum G`;

const bytes = (text: string): Uint8Array => Buffer.from(text, 'latin1');
const refusal = (text: string): string => {
  try {
    parsePolicy(bytes(text));
  } catch (error) {
    expect(error).toBeInstanceOf(NoteRefused);
    return (error as NoteRefused).message;
  }
  return 'taken';
};

/** Policies that no reader may take, and why. */
const REFUSED: readonly (readonly [string, RegExp])[] = [
  ['', /a policy has a quorum line/],
  ['quorum X1', /^line 1: no line before defines "X1"/],
  [`${witness('X1')}\nquorum X1\nquorum X1`, /^line 3: a policy has one quorum line/],
  [`${witness('X1')}\nquorum X1 X1`, /one quorum line, with one name/],
  [
    `${witness('X1')}\n${witness('X1', 'X2')}\nquorum none`,
    /^line 2: the key of "x1.example" stands here twice/,
  ],
  [`${witness('X1')}\n${witness('X2', 'X1')}\nquorum none`, /^line 2: the name "X1" is taken/],
  [`${witness('X1', 'none')}\nquorum none`, /the name "none" is taken/],
  [`${witness('X1')} https://x.example more\nquorum none`, /more words than a key and a URL/],
  [`${LOG}\n${LOG}\nquorum none`, /stands here twice/],
  [`log ${vkeyOf('X1')}\nquorum none`, /is not an Ed25519 key/],
  [`witness X1 ${formatVerifierKey(log)}\nquorum none`, /none of a witness/],
  [`witness X1\nquorum none`, /not a verifier key/],
  [`${witness('X1')}\ngroup G 2 X1\nquorum G`, /^line 2: a group has/],
  [`${witness('X1')}\ngroup G 0 X1\nquorum G`, /a group has/],
  [`${witness('X1')}\ngroup G 01 X1\nquorum G`, /a group has/],
  [`${witness('X1')}\ngroup G all\nquorum G`, /a group has/],
  [`${witness('X1')}\ngroup G all none\nquorum G`, /defines "none"/],
  [`${witness('X1')}\ngroup G all X1 X1\nquorum G`, /"X1" is a member of a group already/],
  [`${witness('X1')}\ngroup G all X1\ngroup H all X1\nquorum G`, /^line 3: "X1" is a member/],
  [`group G all X1\n${witness('X1')}\nquorum G`, /^line 1: no line before defines "X1"/],
  [`quorum none\r\n`, /^line 1: a control character/],
  [`trust me\nquorum none`, /"trust" is none of log, witness, group and quorum/],
  [
    Array.from({ length: 1_001 }, (_, at) =>
      at === 0 ? witness('X1', 'g0') : `group g${at} all g${at - 1}`,
    ).join('\n'),
    /^line 1001: more than 1000 witnesses and groups/,
  ],
  [`#${'x'.repeat(100_000)}`, /at most 100000 bytes/],
];

describe('a policy (C2SP tlog-policy)', () => {
  it('names logs, witnesses and a quorum of groups', () => {
    const policy = parsePolicy(bytes(EXAMPLE));
    expect(policy.logs.map(({ key, url }) => [keyName(key), url])).toEqual([
      [keyName(log), 'https://plants.example'],
    ]);
    expect(policy.witnesses.map(({ key: { name }, url }) => [name, url])).toEqual(
      named.map((name) => [`${name.toLowerCase()}.example`, name === 'Y1' ? 'https://y.example' : undefined]),
    );
    const keys = policy.witnesses.map(({ key }) => key);
    const lack = (...by: string[]): string | undefined =>
      lackOf(
        { witnesses: keys, required: policy.quorum },
        keys.filter(({ name }) => by.includes(name.slice(0, 2).toUpperCase())),
      );
    expect(lack('X1', 'X3', 'Y2')).toBeUndefined();
    expect(lack(...named)).toBeUndefined();
    expect(lack('X1', 'X2')).toBe('cosigned by 2 of the witnesses, and not by 3');
    expect(lack('X1', 'X2', 'X3')).toBe('cosigned by 3 of the witnesses, and not by a quorum of them');
    expect(lack('X1', 'Y1', 'Y2')).toBe('cosigned by 3 of the witnesses, and not by a quorum of them');
  });

  it('may need no cosignature, or that of one witness', () => {
    expect(parsePolicy(bytes('quorum none'))).toEqual({
      logs: [],
      witnesses: [],
      quorum: { threshold: 0, members: [] },
    });
    const { quorum, witnesses: keys } = parsePolicy(bytes(`${witness('X1')}\n${witness('X2')}\nquorum X2`));
    const trusted = keys.map(({ key }) => key);
    expect(lackOf({ witnesses: trusted, required: quorum }, trusted.slice(0, 1))).toMatch(/a quorum/);
    expect(lackOf({ witnesses: trusted, required: quorum }, trusted.slice(1))).toBeUndefined();
  });

  it('may have a witness of ML-DSA-44, whose cosignature counts as another one', async () => {
    const trust = trustInPolicy(parsePolicy(bytes(WITH_LONG)), []);
    const note = signNote(formatCheckpoint({ origin: log.name, size: 0, root: EMPTY_ROOT }), log);
    const signedText = note.slice(0, note.indexOf('\n\n') + 1);
    expect(await verifyCheckpoint(note, trust)).toMatchObject({
      reason: expect.stringContaining('cosigned by 0') as unknown,
    });
    expect(await verifyCheckpoint(note + cosign(signedText, long, 1_700_000_000), trust)).toMatchObject({
      cosignedBy: [{ key: keyName(long) }],
    });
  });

  it('is refused where a line does not hold, which is named', () => {
    for (const [text, reason] of REFUSED) expect(refusal(text)).toMatch(reason);
  });

  (PYTHON ? describe : describe.skip)('as docs/check.py reads it', () => {
    const folder = temporaryFolder();

    const check = (policy: string, by: readonly string[]) => {
      const text = formatCheckpoint({ origin: log.name, size: 0, root: EMPTY_ROOT });
      const note =
        signNote(text, log) + by.map((name) => cosign(text, signerOf(name), 1_700_000_000)).join('');
      const header = {
        before: [],
        checkpoint: note,
        format: 'plants-bundle',
        from: 0,
        version: 1,
      };
      const [file, policyFile] = [join(folder, 'bundle'), join(folder, 'policy')];
      writeFileSync(file, `${JSON.stringify(header)}\n{"end":0}\n`);
      writeFileSync(policyFile, bytes(policy));
      return spawnSync('python3', ['docs/check.py', file, '--policy', policyFile], { encoding: 'utf8' });
    };

    it('means the same', () => {
      expect(check(EXAMPLE, ['X1', 'X3', 'Y2'])).toMatchObject({ status: 0, stderr: '' });
      expect(check(EXAMPLE, ['X1', 'X2', 'X3'])).toMatchObject({ status: 1 });
      expect(check(EXAMPLE, ['X1', 'Y1', 'Y2'])).toMatchObject({ status: 1 });
      expect(check(`${LOG}\nquorum none`, [])).toMatchObject({ status: 0 });
      expect(check(`${LOG}\n${witness('X2')}\nquorum X2`, ['X1'])).toMatchObject({ status: 1 });
    });

    it('may have a witness of ML-DSA-44, which does not count there', () => {
      expect(check(WITH_LONG, ['X1'])).toMatchObject({ status: 0, stderr: '' });
      expect(check(WITH_LONG.replace(' any ', ' all '), ['X1'])).toMatchObject({ status: 1 });
    });

    it('is refused in the same cases', () => {
      for (const [policy] of REFUSED.slice(0, -2)) {
        const { status, stderr } = check(policy, []);
        expect([policy, status]).toEqual([policy, 2]);
        expect(stderr).not.toMatch(/Traceback/);
      }
    });
  });
});

import { randomUUID } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { SignJWT } from 'jose';
import { LOCAL_KEY_ALGORITHM, type LocalKey } from '../src/http/auth/local-key.js';
import { DEFAULT_SCOPES } from '../src/http/auth/principal.js';
import { type Config } from '../src/service/config.js';

/** Signs tokens, and writes files of them; one file for each list of owners. */
export class Tokens {
  readonly #files = new Map<string, Promise<string>>();

  constructor(
    private readonly newPath: () => string,
    private readonly sign: (owner: string, scope?: string) => Promise<string>,
  ) {}

  /** The value of the Authorization header of an owner. */
  async authorization(owner: string, scope?: string): Promise<string> {
    return `Bearer ${await this.sign(owner, scope)}`;
  }

  /** A file with one Authorization value a line, of these owners. */
  file(owners: readonly string[]): Promise<string> {
    const key = owners.join('\n');
    const file = this.#files.get(key) ?? this.#write(owners);
    this.#files.set(key, file);
    return file;
  }

  async #write(owners: readonly string[]): Promise<string> {
    const file = this.newPath();
    const lines = await Promise.all(owners.map((owner) => this.authorization(owner)));
    writeFileSync(file, `${lines.join('\n')}\n`, { mode: 0o600 });
    return file;
  }
}

/** Signs as `plants token` does, with a key that is opened once. */
export const signLocally =
  ({ kid, privateKey }: LocalKey, { issuer, audiences: [audience] }: Config['auth']) =>
  (owner: string, scope = DEFAULT_SCOPES.join(' ')): Promise<string> =>
    new SignJWT({ scope })
      .setProtectedHeader({ alg: LOCAL_KEY_ALGORITHM, kid, typ: 'at+jwt' })
      .setIssuer(issuer)
      .setAudience(audience)
      .setSubject(owner)
      .setJti(randomUUID())
      .setIssuedAt()
      .setExpirationTime('12h')
      .sign(privateKey);

/** Signs with a shared secret (HS256), as the documentation of NestJS has it: cheaper to verify than this service's. */
export const signSimply =
  (secret: string) =>
  (owner: string): Promise<string> =>
    new SignJWT()
      .setProtectedHeader({ alg: 'HS256', typ: 'JWT' })
      .setSubject(owner)
      .setIssuedAt()
      .setExpirationTime('12h')
      .sign(Buffer.from(secret));

import { createClient } from 'redis';

/** A key of a dump: a command that makes it, in base64 where an argument is not UTF-8. */
type Line = readonly (string | { readonly base64: string })[];

const argument = (bytes: Buffer): string | { readonly base64: string } =>
  Buffer.from(bytes.toString()).equals(bytes) ? bytes.toString() : { base64: bytes.toString('base64') };

const connected = async (url: string) => {
  const client = createClient({ url, RESP: 2 });
  client.on('error', () => undefined);
  await client.connect();
  return client;
};

/** All keys that stay, as commands that make them, a line each: what expires is not part of a read model. */
export const dump = async (url: string): Promise<string> => {
  const client = await connected(url);
  const bytes = client.withTypeMapping({ 36: Buffer });
  const ask = async (...args: string[]): Promise<unknown> => bytes.sendCommand(args);
  const lines: string[] = [];
  for await (const keys of client.scanIterator({ COUNT: 1_000 }))
    for (const key of keys.sort()) {
      if ((await client.pTTL(key)) >= 0) continue;
      const type = await client.type(key);
      const read: Readonly<Record<string, readonly [string, ...string[]]>> = {
        string: ['GET'],
        hash: ['HGETALL'],
        set: ['SMEMBERS'],
        zset: ['ZRANGE', '0', '-1', 'WITHSCORES'],
      };
      const [command, ...more] = read[type] ?? [];
      if (command === undefined) throw new Error(`a key of type ${type}: ${key}`);
      const answer = await ask(command, key, ...more);
      const values = (Array.isArray(answer) ? answer : [answer]) as Buffer[];
      const arguments_ =
        type === 'zset' ? values.flatMap((_, at) => (at % 2 ? [] : [values[at + 1], values[at]])) : values;
      const write = { string: 'SET', hash: 'HSET', set: 'SADD', zset: 'ZADD' }[type] ?? '';
      lines.push(JSON.stringify([write, key, ...arguments_.map((one) => argument(one ?? Buffer.alloc(0)))]));
    }
  await client.close();
  return `${lines.sort().join('\n')}\n`;
};

/** Makes the keys of a dump. */
export const load = async (url: string, dumped: string): Promise<void> => {
  const client = await connected(url);
  for (const line of dumped.trim().split('\n'))
    await client.sendCommand(
      (JSON.parse(line) as Line).map((one) =>
        typeof one === 'string' ? one : Buffer.from(one.base64, 'base64'),
      ),
    );
  await client.close();
};

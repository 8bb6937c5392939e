// Gives the service an account of its own in the EventStoreDB of docker-compose.yml: it may read all and append, but
// not delete, not change a stream's limits, and not see or manage users. Run again, it sets the password again.
import { readFileSync } from 'node:fs';
import { request } from 'node:https';
import { setTimeout as pause } from 'node:timers/promises';
import { EventStoreDBClient, jsonEvent, StreamNotFoundError } from '@eventstore/db-client';

const {
  EVENTSTORE: server,
  EVENTSTORE_CA: caFile,
  EVENTSTORE_ADMIN_PASSWORD,
  EVENTSTORE_PASSWORD,
} = process.env;

/** Attempts of each step, one a second: a server may still be starting. */
const ATTEMPTS = 60;

/** The same where it refuses the administrator: a new server does so until it has made its accounts, in seconds. */
const REFUSALS = 20;

/** A failure that the operator can correct. Its message is printed as one line. */
class Failed extends Error {}

/** Posts to EventStoreDB's API of users, as its administrator, and gives the status. */
const post = (path, body) =>
  new Promise((resolve, reject) => {
    const options = {
      method: 'POST',
      auth: `admin:${EVENTSTORE_ADMIN_PASSWORD}`,
      headers: { 'content-type': 'application/json' },
      ca: readFileSync(caFile),
      timeout: 5_000,
    };
    request(`https://${server}${path}`, options, (answer) => {
      answer.resume().once('end', () => resolve(answer.statusCode));
    })
      .once('timeout', function () {
        this.destroy(new Error('no answer within 5 s'));
      })
      .once('error', reject)
      .end(JSON.stringify(body));
  });

const setPassword = async () => {
  const user = { loginName: 'plants', fullName: 'Plant store', groups: [], password: EVENTSTORE_PASSWORD };
  const created = await post('/users/', user);
  if (created !== 409) return created;
  return post('/users/plants/command/reset-password', { newPassword: EVENTSTORE_PASSWORD });
};

const patiently = async (what) => {
  let refusals = 0;
  for (let attempt = 1; ; attempt++) {
    const status = await what().catch((error) => error.message);
    if (status === 200 || status === 201) return;
    if (status === 401) refusals += 1;
    if (refusals === REFUSALS)
      throw new Failed(
        'EVENTSTORE_ADMIN_PASSWORD is not the one that this EventStoreDB was first started with',
      );
    if (attempt === ATTEMPTS) throw new Failed(`EventStoreDB did not take the account: ${status}`);
    await pause(1_000);
  }
};

const OURS = ['$admins', 'plants'];
const ADMINS = '$admins';

/** Permissions of streams without metadata of their own. */
const DEFAULT_ACL = {
  $userStreamAcl: { $r: OURS, $w: OURS, $d: ADMINS, $mr: ADMINS, $mw: ADMINS },
  $systemStreamAcl: { $r: ADMINS, $w: ADMINS, $d: ADMINS, $mr: ADMINS, $mw: ADMINS },
};

const isEmpty = async (client, stream) => {
  try {
    // Read to its end: what is left early never settles.
    let empty = true;
    for await (const _event of client.readStream(stream, { maxCount: 1 })) empty = false;
    return empty;
  } catch (error) {
    if (error instanceof StreamNotFoundError) return true;
    throw error;
  }
};

const makeAccount = async () => {
  await patiently(setPassword);
  const client = EventStoreDBClient.connectionString(
    `esdb://admin:${encodeURIComponent(EVENTSTORE_ADMIN_PASSWORD)}@${server}?tls=true&tlsCAFile=${caFile}`,
  );
  // Only where nobody has decided otherwise.
  if (await isEmpty(client, '$$$all')) await client.setStreamMetadata('$all', { acl: { readRoles: OURS } });
  if (await isEmpty(client, '$settings'))
    await client.appendToStream('$settings', jsonEvent({ type: 'update-default-acl', data: DEFAULT_ACL }));
  await client.dispose();
};

try {
  await makeAccount();
  console.log('EventStoreDB has the account plants');
} catch (error) {
  console.error(
    error instanceof Failed
      ? error.message
      : `EventStoreDB did not take the rights of the account: ${error.message}`,
  );
  process.exit(1);
}

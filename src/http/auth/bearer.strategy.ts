import { Injectable } from '@nestjs/common';
import { PassportStrategy } from '@nestjs/passport';
import { Strategy } from 'passport-http-bearer';
import { type Principal } from './principal.js';
import { type TokenVerifier } from './verify.js';

/**
 * The one place where passport may find a token. It would look into query and body too, where tokens end up in logs
 * (RFC 6750, 2.2 and 2.3; RFC 9700, 4.3.2).
 */
export interface BearerRequest {
  readonly headers: { readonly authorization: string };
  /** Passport's registry belongs to the whole process, so the strategy keeps nothing: a request brings its verifier. */
  readonly verifier: TokenVerifier;
}

@Injectable()
export class BearerStrategy extends PassportStrategy(Strategy, 'bearer') {
  constructor() {
    super({ passReqToCallback: true });
  }

  validate(request: BearerRequest, token: string): Promise<Principal> {
    return request.verifier.verify(token);
  }
}

# frozen_string_literal: true

require "openssl"

module Support
  # Keeps all other Ruby threads from running.
  module BusyRuby
    ROUNDS = 25_000

    # Makes one call into C that keeps the GVL, so that no other Ruby thread runs. The call is
    # planned to take twice the given seconds, because a processor may become much faster after the
    # measurement.
    def hold_gvl(seconds)
      fastest = Array.new(4) { cpu_seconds_of { derive(ROUNDS) } }.min
      derive((ROUNDS * 2 * seconds / fastest).ceil)
    end

    # Runs the block. Returns the longest time in which another Ruby thread was ready and did not
    # run.
    def longest_silence
      instants = [monotonic]
      beating = background { loop { instants << monotonic && Thread.pass } }
      yield
      sleep 0.01 while instants.size < 2
      beating.kill.join
      (instants << monotonic).each_cons(2).map { |earlier, later| later - earlier }.max
    end

    private

    def cpu_seconds_of
      before = Process.clock_gettime(Process::CLOCK_THREAD_CPUTIME_ID)
      yield
      Process.clock_gettime(Process::CLOCK_THREAD_CPUTIME_ID) - before
    end

    def derive(rounds) =
      OpenSSL::KDF.pbkdf2_hmac(
        "password", salt: "salt", iterations: rounds, length: 32, hash: "SHA256"
      )
  end
end

# frozen_string_literal: true

# The stores of the part `growth`. The local store's file is in the folder of the server's socket,
# and has room for all keys of the largest step.
module Bench
  module Stores
    # The timeouts are long, because the server answers slowly when 64 processes share its core.
    PATIENT = { connect_timeout: 5, command_timeout: 10, unavailable_timeout: 20 }.freeze
    KEYS = 200_000
    HUGE_KEYS = 1_048_576 # the maximum of a local store

    # If this environment variable is set, the local store's file has the size for `--huge`.
    HUGE = "PLOCK_BENCH_HUGE"

    def self.path(address) = File.join(File.dirname(address.socket), "growth", "locks")

    def self.url(name, address)
      return address.url(:tcp) if name == "growth-redis"

      "local:#{path(address)}?keys=#{ENV[HUGE] ? HUGE_KEYS : KEYS}"
    end

    # The first call on a store compares the secret with the store's fingerprint, and takes the
    # long way through Ruby. `status` is that call, so later calls take the short way through C.
    def self.open(name, address)
      require "plock"

      options = name == "growth-redis" ? PATIENT : {}
      Plock::Store
        .open(url(name, address), secret: SECRET, **options)
        .tap { |store| store.status("bench") }
    end
  end

  { "growth-redis" => "plock, Redis", "growth-local" => "plock, local:" }.each do |name, label|
    contestant name, label: label, role: :plock, family: :growth do |address|
      store = Stores.open(name, address)
      -> { store.acquire("bench:growth") { :held } }
    end

    contender name do |address|
      store = Stores.open(name, address)
      -> { ->(key, section) { store.acquire(key, ttl: TTL, wait: WAIT) { section.call } } }
    end
  end
end

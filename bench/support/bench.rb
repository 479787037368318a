# frozen_string_literal: true

# What the parent (run.rb) and the process of each contestant (worker.rb) share: the list of contestants and their server's address.
module Bench
  ROOT = File.expand_path("..", __dir__)
  LIB = File.expand_path("../lib", ROOT)
  GEMFILE = File.join(ROOT, "Gemfile")
  SECRET = "a secret for the bench, not for you"

  class Failed < StandardError; end

  # One implementation on one transport.
  # role: :floor, :plock, :engine (plock below its front door) or :peer. gems: of bench/Gemfile, none for plock and the floor.
  # setup: given the Address, it returns a callable that does one pair and returns :held, the value of the locked block.
  Contestant = Struct.new(:name, :label, :role, :transport, :gems, :setup, keyword_init: true) do
    def peer? = role == :peer
    def floor? = role == :floor
    def ours? = %i[plock engine].include?(role)
  end

  # Where the private server listens.
  Address = Struct.new(:port, :socket) do
    def url(transport) = transport == :unix ? "unix://#{socket}" : "redis://127.0.0.1:#{port}/0"
  end

  @contestants = {}

  class << self
    def contestant(name, label:, role:, transport: :tcp, gems: [], &setup)
      @contestants[name] = Contestant.new(name: name, label: label, role: role, transport: transport, gems: gems, setup: setup)
    end

    # All of them, in the order of the table.
    def contestants
      %w[floor plock plock_store redlock redis_mutex older].each { |file| require_relative "../contestants/#{file}" } if @contestants.empty?
      @contestants
    end
  end
end

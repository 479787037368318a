# frozen_string_literal: true

require "spec_helper"
require "socket"
require_relative "rails_context"

# The application uses its store, and then another program forks it.
RSpec.describe "An application of Rails that is forked" do
  include_context "with an application of Rails"

  let(:server) { redis_server }

  before { app.configure("config.plock.url = #{server.unix_url.inspect}") }

  context "by Puma" do
    let(:socket) { app.path("puma.sock") }

    before do
      app.write("config/puma.rb", <<~RUBY)
        bind "unix://#{socket}"
        workers 2
        threads 3, 3
        preload_app!
        # With Ruby 3.3 a Puma 8 worker sometimes waits forever to close a pipe of its own.
        worker_shutdown_timeout 5
      RUBY
      app.write("config/routes.rb", <<~RUBY)
        Rails.application.routes.draw { get "/:action", controller: "sections" }
      RUBY
      app.write("app/controllers/sections_controller.rb", <<~RUBY)
        class SectionsController < ActionController::API
          # Writes one line for each entry and each exit.
          def visit
            Plock.acquire("visits", ttl: 5, wait: 20, renew: true) do |lease|
              note("in \#{lease.fence}")
              Thread.pass
              note("out \#{lease.fence}")
            end
            render plain: Process.pid.to_s
          end

          def master
            seen = [MASTER.valid?, MASTER.release, Plock.try_acquire("master").nil?]
            render plain: seen.join(" ")
          end

          def hold
            Plock.acquire("held", ttl: 2, renew: true) do
              note("holding \#{Process.pid}")
              sleep
            end
          end

          private

          def note(line) = File.write(Rails.root.join("notes"), "\#{line}\\n", mode: "a")
        end
      RUBY
      app.write("config/initializers/zz_master.rb", <<~RUBY)
        Rails.application.config.after_initialize {
          MASTER = Plock.acquire("master", ttl: 2, renew: true) if defined?(Puma)
        }
      RUBY
      app.write("notes", "")
    end

    # Returns the body of the answer, or nil if the worker died during the request.
    def get(name)
      UNIXSocket.open(socket) do |line|
        line.write("GET /#{name} HTTP/1.0\r\nHost: localhost\r\n\r\n")
        answer = line.read
        answer[/\AHTTP\/1.\d 200 .*?\r\n\r\n(.*)\z/m, 1] or (raise answer unless answer.empty?)
      end
    end

    def serve
      puma =
        app.spawn(
          RbConfig.ruby, "-S", "bundle", "exec", "puma", "-e", "test", "-C", "config/puma.rb"
        )
      discard(-> { stop(puma) }, :call)
      eventually(60, "Puma did not start") { answers? }
      puma
    end

    def answers?
      get("visit")
    rescue SystemCallError
      false
    end

    def stop(puma)
      Process.kill(:TERM, puma)
      Timeout.timeout(30) { Process.wait(puma) }
    rescue Errno::ESRCH, Errno::ECHILD
      nil # the example has stopped the process
    end

    def notes = app.read("notes").lines(chomp: true)

    it "excludes among workers, leaves the master's lease alone, and survives a killed worker" do
      puma = serve
      pids = Array.new(6) { background { Array.new(10) { get("visit") } } }.flat_map(&:value)
      expect(pids.uniq.size).to be(2)
      visits = notes.each_slice(2).map { |coming, going| [coming.split, going.split] }
      expect(visits).to all(
        satisfy do |(way_in, fence), (way_out, same)|
          way_in == "in" && way_out == "out" && same == fence
        end
      )
      expect(visits.map { |(_, fence), _| Integer(fence) }.each_cons(2)).to all(
        satisfy { |one, other| one < other }
      )

      holder = background { get("hold") }
      eventually(10) { notes.last.start_with?("holding") }
      Process.kill(:KILL, Integer(notes.last.split.last))
      expect(holder.join(20)).to be(holder)
      eventually(10) { !Plock::Store.open(server.unix_url).status("held").held? }

      # by now, the master's ttl has passed without a renewal
      expect(Array.new(6) { get("master") }.uniq).to eq(["false false true"])
      stop(puma)
      eventually(5) { server.call("KEYS", "plock:v1:*").empty? }
    end
  end

  context "by Spring" do
    # If a command fails, the error shows Spring's own log.
    def spring(*arguments)
      output, status =
        app.execute(
          [RbConfig.ruby, "-S", "bundle", "exec", "spring", *arguments],
          env: {
            "SPRING_LOG" => app.path("spring.log")
          }
        )
      expect(status).to be_success, "#{output}\nspring.log:\n#{app.read("spring.log")}"
      output
    end

    it "works in each process that it makes" do
      discard(-> { spring("stop") }, :call)
      # long timeouts, for a busy machine
      app.write("config/spring_client.rb", "Spring.connect_timeout = Spring.boot_timeout = 30\n")
      app.write(
        "config/initializers/zz_use.rb", "Plock.acquire('boot') { $booted = Process.pid }\n"
      )
      app.write("app/models/visit.rb", <<~RUBY)
        class Visit
          def self.now
            Plock.acquire("k", wait: 5) { |lease|
              puts [$booted != Process.pid, lease.valid?].join(" ")
            }
          end
        end
      RUBY
      2.times do
        expect(spring("rails", "runner", "-e", "development", "Visit.now").lines).to include(
          "true true\n"
        )
      end
      expect(server.call("KEYS", "plock:v1:*")).to be_empty
    end
  end
end

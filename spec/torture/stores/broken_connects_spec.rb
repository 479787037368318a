# frozen_string_literal: true

require "spec_helper"
require "support/databases"

# If mysql2 ever closes these sockets, an example fails. Then the witness need not excuse them any
# more.
RSpec.describe "A connect of mysql2 that an interrupt ends", :databases,
               needs: Support::Databases::PROGRAMS[:mysql2] do
  let!(:server) { Support::Mariadb.shared }
  let(:line) { proxy(["127.0.0.1", server.port]) }

  # Kills a thread after the server has accepted its connection, and before the thread knows that.
  def break_off(line)
    line.forget
    line.hold(:reply)
    thread = Thread.new { Mysql2::Client.new(server.tcp_config("mysql2", port: line.port)) }
    line.await(:request)
    thread.kill
    line.clear
    thread.join
  end

  # Runs in another process, because the sockets stay open.
  def sockets_after
    in_child do
      require_relative "broken_connects"
      Torture::Stores::BrokenConnects.watch
      before = Support::Inventory.connections
      yield
      4.times { GC.start }
      left = Support::Inventory.connections - before
      [left.size, left - Torture::Stores::BrokenConnects.sockets]
    end
  end

  it "leaves its socket open, which is noted" do
    left, not_noted = sockets_after { 3.times { break_off(line) } }
    # if an interrupt arrives a moment later, mysql2 closes the socket
    expect(left).to be_between(1, 3)
    expect(not_noted).to be_empty
  end

  it "is the only one whose socket is noted" do
    kept = []
    expect(
      sockets_after do
        kept << Mysql2::Client.new(server.tcp_config("mysql2"))
        line.refuse
        begin
          Mysql2::Client.new(server.tcp_config("mysql2", port: line.port))
        rescue Mysql2::Error
          nil
        end
      end
    ).to match([1, [start_with("socket:")]])
  end
end
